"""The process capability: the allowed commands, the limits, argument checks and the result of a run. No I/O."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, Protocol, TypeAlias

from spindle.errors import CapabilityError, CommandNotAllowedError
from spindle.json_types import is_list_or_tuple, untyped

SandboxMode: TypeAlias = Literal["auto", "required", "none", "off"]
"""`off` is an older word for `none`."""

SHELL = "sh"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_CODE_PREFIXES = (
    *("LD_", "DYLD_", "BASH_", "GIT_", "GUILE_", "JULIA_", "LUA_", "MALLOC_", "PERL", "PHP", "PYTHON", "R_", "RUBY"),
    *("BUN_", "BUNDLE_", "CARGO_", "COMPLUS_", "CONDA_", "CORECLR_", "COREPACK_", "COR_", "DENO_", "DOTNET_", "GEM_"),
    *("GRADLE_", "JAVA_", "JDK_", "MAVEN_", "NODE_", "NPM_", "PIP_", "PNPM_", "POETRY_", "RUST", "UV_", "YARN_"),
    *("ANSIBLE_", "CGO_", "CMAKE_", "DOCKER_", "ERL_", "GHC", "GIO_", "GST_", "GTK_", "HELM_", "HG", "LESS", "NVIM_"),
    *("ASDF_", "CCACHE_", "DIRENV_", "DISTCC_", "JUPYTER_", "MAGICK_", "MISE_", "NVM_", "OCTAVE_", "PYENV_", "RBENV_"),
    *("SCCACHE_", "TS_NODE_"),
    *("OCAML", "OPENSSL_", "PKG_CONFIG", "PYTEST_", "QT_", "RSYNC_", "SSH_", "SUDO_", "SVN_", "TCL", "TF_", "XDG_"),
)
"""Families of variables in which interpreters, loaders, compilers and tools look for code, options and commands."""
_CODE_SUFFIXES = (
    *("FLAGS", "_ADDOPTS", "_ASKPASS", "_COMMAND", "_CONFIG_FILE", "_EDITOR", "_LIBRARY_PATH", "_MODULE_PATH"),
    *("_CONFIG_DIR", "_CONFIG_PATH", "_CONFIGURE_PATH", "_DRIVER_PATH", "_DRIVERS_PATH", "_EXECUTABLE", "_LIBPATH"),
    *("_EXECUTABLE_PATH", "_ICD_FILENAMES"),
    *("_OPTIONS", "_OPTS", "_PAGER", "_PLUGINS", "_PLUGIN_PATH", "_PRELOAD", "_RSH", "_SHELL", "_STARTUP", "_WRAPPER"),
)
_CODE_NAMES = frozenset(
    {
        *(
            "PATH",
            "HOME",
            "TMPDIR",
            "ENV",
            "SHELL",
            "SHELLOPTS",
            "BASHOPTS",
            "IFS",
            "PS4",
            "ZDOTDIR",
            "FPATH",
            "CDPATH",
        ),
        *(
            "PROMPT_COMMAND",
            "INPUTRC",
            "EDITOR",
            "VISUAL",
            "PAGER",
            "MANPAGER",
            "BROWSER",
            "FCEDIT",
            "TERMINFO",
            "TERMCAP",
        ),
        *("TERMINFO_DIRS", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "SSLKEYLOGFILE"),
        *(
            "CC",
            "CXX",
            "CPP",
            "LD",
            "AR",
            "AS",
            "MAKE",
            "MAKEFILES",
            "GCC_EXEC_PREFIX",
            "COMPILER_PATH",
            "LIBRARY_PATH",
        ),
        *(
            "CPATH",
            "C_INCLUDE_PATH",
            "CPLUS_INCLUDE_PATH",
            "CLASSPATH",
            "_JAVA_OPTIONS",
            "ELIXIR_ERL_FLAGS",
            "VIRTUAL_ENV",
        ),
        *("GOBIN", "GOENV", "GOPATH", "GOPROXY", "GOROOT", "GOTOOLCHAIN", "GOWORK", "CAML_LD_LIBRARY_PATH"),
        *("EMACSLOADPATH", "EXINIT", "VIMINIT", "GVIMINIT", "VIM", "VIMRUNTIME", "MYVIMRC", "CVS_RSH", "TAR_OPTIONS"),
        *("PSQLRC", "PGSERVICEFILE", "PGSYSCONFDIR", "KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
        *("ACKRC", "AWKLIBPATH", "AWKPATH", "CURL_HOME", "GNUPGHOME", "GNUPLOT_LIB", "IPYTHONDIR", "KRB5_CONFIG"),
        *("MAILCAPS", "MAILRC", "MYPYPATH", "MYSQL_HOME", "ODBCINI", "ODBCSYSINI", "PLTCOLLECTS", "SCREENRC"),
        *("SYSTEM_WGETRC", "WGETRC"),
        *("COVERAGE_PROCESS_START", "DJANGO_SETTINGS_MODULE", "FLASK_APP", "GUNICORN_CMD_ARGS", "GS_LIB", "TEXMFCNF"),
    }
)
_HARMLESS_NAMES = frozenset(
    {
        *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUNBUFFERED"),
        *(
            "PYTHONUTF8",
            "NODE_ENV",
            "NODE_NO_WARNINGS",
            "RUST_BACKTRACE",
            "RUST_LOG",
            "CARGO_TERM_COLOR",
            "JAVA_VERSION",
        ),
        *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"),
        *("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_MERGE_AUTOEDIT"),
    }
)
"""Members of these families that only change output or recorded names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The result of a command: how it ended and what it wrote."""

    exit_code: int | None
    """`None` if the command was ended by a signal."""
    signal: int | None = None
    timed_out: bool = False
    stdout: str
    """The first `output_bytes` as text; bytes that are not UTF-8 are shown as U+FFFD."""
    stderr: str
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: int = 0
    """Total number of bytes written to stdout."""
    stderr_bytes: int = 0
    stdout_artifact: str | None = None
    """Spool id of the full output, if the output was truncated."""
    stderr_artifact: str | None = None
    raw_stdout: bytes = field(default=b"", repr=False)
    raw_stderr: bytes = field(default=b"", repr=False)
    notes: tuple[str, ...] = ()
    """Remarks on the run, such as dropped output or descendants that could not be killed."""

    @property
    def ok(self) -> bool:
        """Whether the command exited in time with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """The resources one command may use; `None` sets no limit.

    CPU time, memory and the number of open files are counted per process, as the kernel's limits are.
    """

    cpu_seconds: int | None = 300
    memory_bytes: int | None = 4 << 30
    """Address space; programs that reserve far more than they use (Node.js, Go, Java) need a large value."""
    file_bytes: int | None = 1 << 30
    """Size of the largest file it may write."""
    processes: int | None = 256
    """Total number of processes and threads of the command."""
    open_files: int | None = 1024
    output_bytes: int = 1 << 20
    """Bytes of stdout, and of stderr, that are returned; the rest goes to the spool."""
    spool_bytes: int = 64 << 20
    """Bytes of each stream that are spooled; the rest is counted and dropped."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.name not in {"output_bytes", "spool_bytes"}:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < (each.name not in _MAY_BE_ZERO):
                raise CapabilityError(
                    f"limit {each.name}: expected a whole number above 0, got {value!r}", field="process"
                )


_MAY_BE_ZERO = {"output_bytes", "spool_bytes"}


class Process(Protocol):
    """The process handle of a call, available to the tool as `ctx.process`."""

    async def run(
        self,
        argv: Sequence[str] | str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout_seconds: float | None = None,
    ) -> Finished:
        """Run one command to its end, and end every process it started."""
        ...


@dataclass(frozen=True, slots=True)
class CommandRules:
    """The allowed commands: declared by the tool and granted by the caller; `*` is any name without a slash."""

    declared: frozenset[str]
    granted: frozenset[str]
    tool: str | None = None

    def check(self, command: str) -> None:
        """Check that a command may run.

        Raises:
            CommandNotAllowedError: The command is not declared, or not granted.
        """
        if command not in self.declared and "*" not in self.declared:
            raise self._refusal(command, "declared by this tool", self.declared, "Capabilities(process=[…])")
        # `*` covers names on the search path only; a path to another file must be granted explicitly.
        if command not in self.granted and ("/" in command or "*" not in self.granted):
            raise self._refusal(command, "granted", self.granted, "commands=[…] on the process backend")

    def _refusal(self, command: str, verb: str, names: frozenset[str], place: str) -> CommandNotAllowedError:
        known = ", ".join(sorted(names)) or "none"
        return CommandNotAllowedError(
            f"command {command!r} was not {verb} ({known}); add exactly this name to {place}",
            command=command,
            tool=self.tool,
        )


def check_commands(commands: Iterable[str]) -> frozenset[str]:
    """Return the granted names after checking that each is `*`, a bare name or an absolute path.

    Raises:
        CapabilityError: A name is none of these.
    """
    if isinstance(commands, (str, bytes)):
        raise CapabilityError(f"commands: expected a list of names, got {commands!r}", field="process")
    names = frozenset(commands)
    for name in names:
        if not isinstance(untyped(name), str) or not name or "\0" in name or name in {".", ".."}:
            raise CapabilityError(f"commands: expected program names, got {name!r}", field="process")
        if "/" in name and not name.startswith("/"):
            raise CapabilityError(
                f"commands: {name!r} depends on the current folder; grant a bare name or an absolute path",
                field="process",
            )
    return names


def check_argv(argv: object, *, shell: bool, tool: str | None = None) -> list[str]:
    """Return the argument list; a string becomes a shell command line if a shell is granted.

    Raises:
        CommandNotAllowedError: `argv` is a string and no shell is granted.
        CapabilityError: `argv` is not a list of strings that can be passed to a program.
    """
    if isinstance(argv, str):
        if not shell:
            raise CommandNotAllowedError(
                "expected a list of arguments such as ['git', 'status'], got one string; a shell "
                "command line needs shell=True on the process backend",
                command=argv,
                tool=tool,
            )
        argv = [SHELL, "-c", argv]
    if not is_list_or_tuple(argv) or not argv:
        raise CapabilityError(f"argv: expected a non-empty list of strings, got {argv!r}", tool=tool, field="argv")
    words = [_check_system_text(word, f"argv[{index}]", tool) for index, word in enumerate(argv)]
    if not words[0]:
        raise CapabilityError("argv[0]: expected a command name, got an empty string", tool=tool, field="argv")
    return words


def check_env(
    env: Mapping[str, str] | None, *, pinned: bool, allowed: Iterable[str] = (), tool: str | None = None
) -> dict[str, str]:
    """Return the variables after checking them.

    With `pinned`, variables that decide which code runs are rejected, except for the `allowed` ones.

    Raises:
        CapabilityError: A name or a value is invalid, or a tool may not set the variable.
    """
    checked: dict[str, str] = {}
    for name, value in (env or {}).items():
        key = _check_system_text(name, "env", tool)
        if not key or "=" in key:
            raise CapabilityError(f"env: expected a variable name, got {key!r}", tool=tool, field="env")
        if pinned and key not in allowed and is_code_variable(key):
            raise CapabilityError(
                f"env: a tool may not set {key}, because it can decide which code runs; set it with env={{…}} on the "
                f"process backend, or let tools set it with allowed_env=[{key!r}] there",
                tool=tool,
                field="env",
            )
        checked[key] = _check_system_text(value, f"env[{key}]", tool)
    return checked


def check_env_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names of variables that a grant lists, after checking them.

    Raises:
        CapabilityError: It is not a list of variable names.
    """
    if isinstance(names, (str, bytes, Mapping)):
        raise CapabilityError(f"allowed_env: expected a list of variable names, got {names!r}", field="process")
    checked = frozenset(names)
    for name in checked:
        # A pattern would be taken for a name, and allow nothing.
        if not isinstance(untyped(name), str) or not name or set(name) & set("=*?\0"):
            raise CapabilityError(f"allowed_env: expected exact variable names, got {name!r}", field="process")
    return checked


def is_code_variable(name: str) -> bool:
    """Return True if a variable can make an allowed program load or run other code.

    Case is ignored: npm reads `npm_config_…`, and other programs are as lenient.
    """
    key = name.upper()
    if key in _HARMLESS_NAMES:
        return False
    return key in _CODE_NAMES or key.startswith(_CODE_PREFIXES) or key.endswith(_CODE_SUFFIXES)


def check_cwd(root: str, cwd: object, tool: str | None = None) -> str:
    """Return the folder a command starts in: `cwd` relative to the root.

    Raises:
        CapabilityError: The folder is outside the root.
    """
    if cwd is None:
        return root
    wanted = _check_system_text(cwd, "cwd", tool)
    folder = posixpath.normpath(posixpath.join(root, wanted))
    if folder != root and not folder.startswith(root.rstrip("/") + "/"):
        raise CapabilityError(f"cwd: {wanted!r} is outside the granted root", tool=tool, field="cwd")
    return folder


def check_timeout(timeout_seconds: object, tool: str | None = None) -> float | None:
    """Return the timeout as a float, or None for no timeout.

    Raises:
        CapabilityError: The timeout is not a number above 0.
    """
    if timeout_seconds is None:
        return None
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, (int, float)) or not timeout_seconds > 0:
        raise CapabilityError(
            f"timeout_seconds: expected a number above 0, got {timeout_seconds!r}", tool=tool, field="timeout_seconds"
        )
    return float(timeout_seconds)


def check_stdin(stdin: object, tool: str | None = None) -> bytes | None:
    """Return stdin as bytes; text is encoded as UTF-8, and `None` means no input.

    Raises:
        CapabilityError: `stdin` is neither text nor bytes.
    """
    if stdin is None or isinstance(stdin, bytes):
        return stdin
    if isinstance(stdin, bytearray):
        return bytes(stdin)
    if isinstance(stdin, str):
        try:
            return stdin.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise CapabilityError(
                "stdin: a lone surrogate cannot be encoded as UTF-8", tool=tool, field="stdin"
            ) from None
    raise CapabilityError(f"stdin: expected text or bytes, got {type(stdin).__name__}", tool=tool, field="stdin")


def _check_system_text(value: object, field: str, tool: str | None) -> str:
    """Return a string that can be passed to the system: without NUL characters and encodable."""
    if not isinstance(value, str):
        raise CapabilityError(f"{field}: expected text, got {type(value).__name__}", tool=tool, field=field)
    if "\0" in value:
        raise CapabilityError(f"{field}: a NUL character cannot be passed to a program", tool=tool, field=field)
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise CapabilityError(
            f"{field}: a lone surrogate cannot be passed to a program", tool=tool, field=field
        ) from None
    return value
