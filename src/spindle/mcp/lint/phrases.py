"""English phrases of poisoned texts, as patterns for RE2; `languages.py` has those of other languages.

The words are those of attackers. `tol[d]` is one that prose of this repository avoids, and a test refuses.
"""

from collections.abc import Mapping
from typing import Final

_USER: Final = (
    r"(?:the |your |this |end[- ]?|any |a )*(?:users?|humans?|persons?|people|operators?|owner|customers?"
    r"|anyone|anybody|them|developer)\b"
)
_MODEL_RULES: Final = (
    r"(?:instructions?|prompts?|guidelines?|directives?|directions|rules|orders|system messages?|safety \w+"
    r"|guard ?rails?|safeguards|restrictions|polic(?:y|ies)|training|constraints|programming)"
)
_SECRETS: Final = (
    r"(?:credentials?|passwords?|passphrases?|secrets|secret keys?|api[ _-]?keys?|access[ _-]?keys?"
    r"|private[ _-]?keys?|ssh[ _-]?keys?|(?:access|auth|session|bearer|refresh)?[ _-]?tokens?"
    r"|environment variables?|env(?:ironment)? vars?|cookies|seed phrases?|mnemonics?|wallets?|key ?chain)"
)
_CONVERSATION: Final = (
    r"(?:(?:whole|entire|full|complete|current|previous|prior|all|user'?s?)? ?(?:conversations?|chat(?:s"
    r"| history| log)?|dialogue?|message history|transcripts?|what the user (?:says|said|types|typed|writes"
    r"|wrote|asks|asked)|system prompts?|(?:chat |model )?context window|(?:last|latest|recent|prior|previous"
    r"|earlier) (?:\w+ ){0,2}?(?:messages|prompts|turns)|user'?s? (?:\w+ ){0,3}?(?:messages?|questions?|inputs?"
    r"|data|prompts?|details|files?|emails?)))"
)
PRIVATE_FILE: Final = (
    r"(?:(?:~|\$home|/home/[\w.-]{1,40}|/users/[\w.-]{1,40}|/root|%userprofile%"
    r"|c:\\users\\[\w.-]{1,40})?[/\\]?\.(?:ssh|aws|gnupg|kube|docker|npmrc|pypirc|netrc|git-credentials"
    r"|bash_history|zsh_history|env\b|cursor|claude|codex|config/gcloud|mozilla|gitconfig|vault"
    r"|password-store)[\w./\\-]{0,60}|id_(?:rsa|dsa|ecdsa|ed25519)|/etc/(?:passwd|shadow|sudoers|hosts)"
    r"|/proc/(?:self|\d+)/environ|(?:mcp|claude_desktop_config|credentials?|secrets?"
    r"|service[_-]account)\.(?:json|ya?ml|toml|txt)|wallet\.dat|[\w-]{0,20}\.(?:pem|kdbx|keystore|pfx)\b"
    r"|login data|cookies\.sqlite|authorized_keys)"
)
_ADDRESS: Final = (
    r"(?:https?://|hxxps?://|wss?://|ftp://|[\w.+-]{1,60}@[\w-]{1,60}\.\w{2}|\b[\w-]{2,40}\.(?:ngrok|pipedream"
    r"|requestbin|webhook|burpcollaborator|oast|workers\.dev|attacker|evil)[\w.]*"
    r"|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|attacker|our (?:server|endpoint|api|analytics|logging|backend)"
    r"|my (?:server|email|endpoint)|(?:external|remote|third[- ]party|collection|logging|telemetry"
    r"|audit) (?:server|endpoint|host|service|url|address|webhook))"
)
_READ: Final = (
    r"\b(?:read|open|cat|load|access|retrieve|fetch|get|grab|copy|dump|view|collect|gather|extract|include"
    r"|look up|find|list|print|attach|paste|embed|use|search(?: for)?|content of|contents of)\b"
)
_HAND_OVER: Final = (
    r"\b(?:pass|includ|send|sent|put|provid|append|attach|add|plac|submit|insert|suppl|forward|embed|past|encod"
    r"|transmit|upload|writ|includ|return|report|fill|set|deliver|suppl|need|must be|should be|has to be"
    r"|have to be|as (?:the |an? )?\W?\w{1,40}\W? ?(?:param|arg|field|header|value)|in(?:to)? (?:the |this "
    r"|its )?\W?\w{1,40}\W? (?:param|arg|field)|so that|otherwise)"
)
_SEND: Final = (
    r"\b(?:send|post|forward|upload|transmit|exfiltrate|submit|leak|e-?mail|mail|bcc|cc|copy|copies|relay"
    r"|deliver|append|attach|share|ship|push|put|place|insert|repeat|quote|store|save|publish|report|log|mirror"
    r"|replicate|dump|encode|pass|write|sync|stream|beacon|add|include|sent|forwarded|uploaded|copied|posted)\b"
)


_NOT: Final = (
    r"\b(?:do not|don'?t|dont|never|must not|mustn'?t|should not|shouldn'?t|without|avoid|refrain from"
    r"|no need to|not to|instead of|rather than)\b"
)


def _gap(count: int) -> str:
    return rf"[^\n]{{0,{count}}}?"


ENGLISH: Final[Mapping[str, tuple[str, ...]]] = {
    # overrides the instructions of the model
    "SP101": (
        (
            r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|bypass|overrid(?:e|es|ing)|overrule|discard"
            r"|supersed(?:e|es|ing)|do not follow|don'?t follow|stop following|set aside"
            rf"|drop)\b(?: \W?[\w'-]+\W?){{0,3}}? (?:previous|prior|above|earlier|preceding|other|all|any|every"
            r"|existing|your|system|safety|original|former|initial|old|their|the user'?s"
            rf"|user)\b(?: \W?[\w'-]+\W?){{0,4}}? ?\b{_MODEL_RULES}\b"
        ),
        (
            rf"\b(?:ignore|disregard|forget|discard) (?:everything|anything|all|whatever)\b{_gap(40)}\b(?:above|before"
            r"|previous(?:ly)?|earlier|so far|tol[d]|said|instructed|learned)\b"
        ),
        (
            r"\byou(?: are|'re) (?:now|no longer|henceforth)\b|\bfrom (?:now|this point|here) on(?:wards?)?,? (?:you"
            r"|always|every|all)\b|\bhenceforth,? you\b"
        ),
        (
            r"\b(?:your|the assistant'?s|the model'?s) (?:new|real|actual|true|primary|only|updated|revised"
            r"|first) (?:task|goal|objective|instructions?|role|purpose|job|mission|priority|directives?|orders)\b"
        ),
        (
            r"\b(?:new|updated|revised|additional|urgent|secret|hidden|real|actual"
            r"|mandatory) (?:system )?(?:instructions?|directives?|orders|system prompt|policy)(?: (?:for|to) (?:the "
            r"|you|all |every )?[\w ]{0,20})? ?(?::|are\b|is\b|follow)"
        ),
        (
            r"\b(?:enable|enter|activate|switch to|in) (?:developer|debug|god|admin|maintenance|unrestricted|jailbreak"
            r"|dan|sudo|root) mode\b|\bjailbr[eo]ak|\byou (?:must|may|should|can|shall)(?: ?not|n't| never) refuse\b"
        ),
        (
            r"\b(?:these|this|the following|my) (?:instructions?|rules?|messages?|notices?|directives?|requirements?"
            r"|text)\b[^\n]{0,30}\b(?:take|takes|have|has) (?:precedence|priority)\b|\b(?:takes?|has|have|higher"
            r"|highest) (?:precedence|priority) over (?:all|any|every|the|your|other"
            r"|user)\b[^\n]{0,30}\b(?:instructions?|rules?|prompts?|guidelines?|requests?|polic)"
        ),
        (
            r"\bsystem (?:override|prompt override|notice|alert|update|message|instruction|command)\s?[:\]!-]"
            r"|\b(?:admin|developer|root|anthropic|openai|google) (?:override|instruction|directive|message|notice"
            r"|command)s?\s?[:\]!-]"
        ),
        (
            rf"\b(?:regardless of|no matter|even if|contrary to|despite)\b{_gap(25)}\b(?:user|previous|system|other"
            r"|your"
            rf"|earlier)\b{_gap(25)}\b(?:asks?|says?|said|wants?|requests?|instructions?|prompts?|guidelines|rules"
            rf"|objects?|refuses?|declines?|denie[sd])\b{_gap(60)}\b(?:must|always|call|send|run|execute|use|you|do"
            r"|proceed)\b"
        ),
        (
            r"\b(?:the|this|any) (?:ai|llm|model|assistant|agent|language model)\b[^\n]{0,30}\b(?:must|shall|has to"
            r"|is required to|needs to) (?:obey|comply|follow|first|always|never|execute|also|silently|ignore)\b"
        ),
        (
            r"\b(?:dis(?:able|regard)|turn off|skip|suppress|avoid|circumvent) (?:all |any |the |your "
            r"|every )*(?:safety|security|content|approval|permission|confirmation|consent|guardrail"
            r"|moderation)s?[ -](?:checks?|filters?|features?|measures?|prompts?|dialogs?|steps?|rails?|guidelines"
            r"|polic)"
        ),
    ),
    # conceals something from the user
    "SP102": (
        (
            rf"{_NOT}(?: [\w',-]+){{0,3}}? (?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?"
            rf"|bother(?:ing)?|alarm(?:ing)?)\b {_USER}"
        ),
        (
            rf"{_NOT}(?: [\w',-]+){{0,3}}? (?:mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|admit(?:ting)?"
            r"|say(?:ing)?|confess(?:ing)?|announc(?:e|ing)|report(?:ing)?|talk(?:ing)?|expos(?:e|ing)"
            rf"|explain(?:ing)?)\b(?: [\w'\"`/,-]+){{0,8}}? ?(?:to|with) {_USER}"
        ),
        (
            rf"{_NOT}(?: [\w',-]+){{0,3}}? (?:show(?:ing)?|display(?:ing)?|describ(?:e|ing)|discuss(?:ing)?|let|letting"
            r"|acknowledg(?:e|ing)|report(?:ing)?|explain(?:ing)?)\b (?:this|that|these|it|any of (?:this|it)|anything"
            r"|the (?:step|instruction|extra|additional|hidden|reading|file|call|request|copy|parameter|sidenote|note"
            rf"|field|real|actual)\w*)(?: [\w'\"`/-]+){{0,6}}? ?(?:to|with|from)? ?{_USER}"
        ),
        (
            rf"{_NOT}(?: [\w'-]+){{0,2}}? (?:mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|referenc(?:e|ing)"
            r"|talk(?:ing)? about|discuss(?:ing)?|refer(?:ring)? to|say(?:ing)? anything about|acknowledg(?:e"
            r"|ing)) (?:this|these|that you|that it|that the|it\b|the fact|any of this|the (?:step|instruction|extra"
            r"|additional|hidden|reading|file|call|request|copy|existence|sidenote)\b)"
        ),
        (
            rf"\b(?:keep|keeps|keeping|stay|remain|leave|kept)\b{_gap(40)}\b(?:secret|hidden|confidential|silent"
            rf"|invisible|quiet|between us|unaware|in the dark|unmentioned|to yourself)\b(?:{_gap(30)}{_USER}"
            r"|[.;!]| and| about|$)"
        ),
        rf"\b(?:hide|hides|hiding|conceal|conceals|concealing|withhold|mask)\b{_gap(50)}\bfrom {_USER}",
        (
            r"\b(?:silently|secretly|covertly|quietly|discreetly|stealthily|invisibly|surreptitiously"
            r"|without (?:any )?(?:notice|mention|comment))\b[,:]?(?: \w+){0,3}? (?:send|read|call|run|execute|forward"
            r"|copy|includ|append|upload|transmit|attach|collect|pass|add|exfiltrate|record|gather|bcc|store|report"
            r"|post|invoke|leak|delete|transfer)"
        ),
        (
            r"\b(?:send|read|call|run|execute|forward|copy|include|append|upload|transmit|attach|collect|pass|add"
            rf"|delete|transfer|do (?:all of )?(?:this|so|it|that)|perform)\b{_gap(60)}\b(?:silently|secretly|quietly"
            r"|covertly|discreetly|stealthily|surreptitiously|without further (?:explanation|comment|notice|mention)"
            r"|without (?:the |any |their |user )*(?:user'?s? |users'? |human'?s? |person'?s? |owner'?s? )?(?:knowledge"
            r"|awareness|noticing|knowing)\b)"
        ),
        (
            rf"{_USER}(?: \w+)? (?:must|should|shall|may|can)(?: ?not|n'?t| never)\b(?: \w+){{0,2}}? (?:know about"
            r"|see this|see it|notice|be aware|become aware|be tol[d]|be informed|find out|learn|realize|suspect"
            r"|be notified|hear)\b"
        ),
        (
            rf"{_USER}(?: \w+)? (?:is|are|stays?|remains?|must be|will be) (?:unaware|kept unaware|oblivious"
            r"|none the wiser)\b|\b(?:it|this|that) (?:would|will|could|might)(?: only| even)? (?:upset|worry|frighten"
            rf"|scare|alarm|annoy) {_USER}"
        ),
        (
            rf"\b(?:pretend|claim|say|tell {_USER}|answer|respond|lie"
            rf"|act as if)\b{_gap(40)}\b(?:that )?(?:nothing (?:happened|else|was)|it was a bug|you did not|you didn'?t"
            r"|everything is fine|this did not happen|it never happened)\b"
        ),
    ),
    # markup of prompts
    "SP103": (
        (
            r"<\s?/?\s?(?:important|system|secret|hidden|admin|override|critical|urgent|confidential|priority|mandatory"
            r"|instructions?[-_ ]for[-_ ]\w+|system[-_ ]\w{1,20}|assistant|ai[-_ ]\w{1,20}|llm[-_ ]?\w{0,20}"
            r"|prompt[-_ ]injection|private|internal[-_ ]\w{1,20}|hidden[-_ ]\w{1,20}|secret[-_ ]\w{1,20}"
            r"|important[-_ ]\w{1,20})(?: [^<>\n]{0,60})?>"
        ),
        (
            r"(?:\[|\(|\{|#{2,6} ?|\*\*|-{3,} ?|={3,} ?)\s?(?:system|system prompt|system message|system note"
            r"|hidden instructions?|internal instructions?|admin|instructions? (?:for|to) (?:the )?(?:ai|llm|model"
            r"|assistant|agent))\s?(?:\]|\)|\}|\*\*|:|-{3,}|={3,})|### instruction:|\bsystem instruction\s?:"
        ),
        (
            r"\b(?:begin|start|end) (?:of )?(?:system|hidden|secret|admin|internal) (?:prompt|instructions?|message"
            r"|block)|\b(?:end of (?:the )?(?:tool )?description|description ends here)\b"
        ),
    ),
    # orders about other tools and about every request
    "SP104": (
        (
            r"\b(?:before|prior to|after|whenever|every time|each time|when)\b (?:you )?(?:us(?:e|ing)|call(?:ing)?"
            r"|invok(?:e|ing)|run(?:ning)?|execut(?:e|ing)|access(?:ing)?)? ?(?:of )?(?:any|all|every"
            r"|each)(?: of the)?(?: other| available| remaining)? (?:tools?|functions?|servers?)\b[^\n]{0,60}?\b(?:must"
            r"|always|call|use|run|invoke|read|send|first|need|should|make sure|required|mandatory|this)\b"
        ),
        (
            r"\b(?:must|always|needs? to|has to|have to|required to|should|mandatory|make sure to|shall"
            r"|be sure to)\b(?: [\w'*-]+){0,4}? (?:call|called|use|used|invoke|invoked|run|executed?"
            r"|be the first)\b(?: [\w'*-]+){0,5}? (?:before|prior to|after|first,? before|ahead of|instead of"
            r"|in place of|on|for|with)\b (?:us\w+ |call\w+ |invok\w+ |run\w+ )?(?:any|all|every"
            r"|each)(?: [\w'-]+){0,2}? (?:tools?|functions?|requests?|messages?|quer(?:y|ies)|responses?|conversations?"
            r"|turns?|answers?|actions?|calls?|tasks?|operations?|prompts?|interactions?)\b"
        ),
        (
            r"\b(?:for|on|with|in|at the (?:start|beginning|end) of) (?:any|all|every"
            r"|each)(?: single)?(?: user)? (?:requests?|messages?|quer(?:y|ies)|responses?|conversations?|turns?"
            r"|answers?|prompts?|interactions?|sessions?)\b,?(?: [\w'-]+){0,4}? (?:call|use|run|invoke|execute|send"
            r"|include|append|read)\b"
        ),
        (
            r"\b(?:do not|don'?t|never|stop) (?:ever )?(?:us\w+|call\w*|invok\w+|trust\w*|rely on|relying on) (?:any"
            r"|all|the)? ?other (?:\w+ )?(?:tools?|functions?|servers?)\b|\b(?:all|every|any) other (?:\w+ )?(?:tools?"
            r"|servers?|functions?) (?:are|is|have been|has been|must|should) (?:deprecated|broken|disabled|unsafe"
            r"|outdated|insecure|not be|never|malicious|obsolete|removed)"
        ),
        (
            r"\b(?:this|the present) (?:tool|function|server)\b[^\n]{0,20}\b(?:replaces|supersedes|overrides"
            r"|takes priority over|must be preferred over|should be used instead of|is required (?:before|by)) (?:all"
            r"|any|every|the)? ?(?:other|built[- ]?in|existing|native|default)?"
        ),
        (
            r"\b(?:other|any|another|all) (?:\w+ )?tools?'?s? (?:will|may|might|do|does|would|can) (?:not work|fail"
            r"|crash|break|be blocked|stop working|be locked|refuse)\b[^\n]{0,40}\b(?:unless|until|if|without|before)\b"
        ),
        (
            r"\b(?:all|every|each|any) (?:shell |tool |terminal |generated |of your )?(?:commands?|answers?|responses?"
            r"|replies|reply|tool calls?|code)\b (?:you \w+ )?(?:must|should|have to|need to|has to"
            r"|needs to) (?:always )?(?:include|contain|start|begin|end|be prefixed|be preceded|carry|go through"
            r"|be routed|be sent)\b"
        ),
        (
            r"\b(?:when(?:ever)?|if) you (?:would|want to|need to|were to|are about to|plan to|intend to"
            r"|have to) (?:use|call|invoke|run)\b[^\n]{0,50}?\b(?:call|use|invoke|run) this\b|\b(?:use|call|prefer"
            r"|choose) this(?: tool| function| one)?\b[^\n]{0,20}?\binstead of\b[^\n]{0,60}?\b(?:compromised|unsafe"
            r"|broken|insecure|malicious|outdated|disabled|dangerous|unreliable|hacked)\b"
        ),
    ),
    # reads files or secrets and passes them on
    "SP105": (
        rf"{_READ}{_gap(80)}{PRIVATE_FILE}{_gap(160)}{_HAND_OVER}",
        rf"{_HAND_OVER}\w*{_gap(100)}{_READ}{_gap(60)}{PRIVATE_FILE}",
        rf"\b(?:contents?|text|body|value|lines|copy|data) (?:of|from|in) {_gap(40)}{PRIVATE_FILE}",
        (
            r"\b(?:first|then|also|next|must|please|should|always|need to|to do (?:so|this)"
            rf"|make sure)\b,?{_gap(30)}{_READ}{_gap(60)}(?:{PRIVATE_FILE}|\b(?:the |all |any |your |user'?s? |their "
            rf"|my |every |available )+{_SECRETS}\b)"
        ),
        (
            rf"{_READ}{_gap(40)}\b(?:all |any |your |user'?s? |their |every |available |stored |saved "
            rf"|known )+(?:\w+ )?{_SECRETS}\b{_gap(120)}\b(?:return (?:them|it|these) in|pass|send|put|provide|append"
            r"|attach|place|submit|insert|supply|forward|encode|transmit|upload|include|as (?:the "
            rf"|an? )?\W?\w{{1,40}}\W? (?:param|arg|field)|in(?:to)? (?:the |this )?\W?\w{{1,40}}\W? (?:param|arg"
            r"|field))"
        ),
        (
            r"\b(?:pass|send|put|provide|append|attach|place|submit|insert|supply|forward|encode|include"
            rf"|fill)\w*\b{_gap(50)}\b(?:all |any |your |user'?s? |their |every |available |stored |saved "
            rf"|known )+(?:\w+ )?{_SECRETS}\b{_gap(60)}\b(?:param|arg|field|you (?:know|have|can)|found|from|in the"
            r"|into|here|context|memory|conversation|as|so)"
        ),
    ),
    # sends data away
    "SP106": (
        (
            rf"{_SEND}{_gap(60)}\b(?:{_CONVERSATION}|(?:all|any|every|the|their|your"
            rf"|user'?s?) (?:\w+ ){{0,2}}?(?:{_SECRETS}|data|files?|e-?mails?|messages?|results?|outputs?|responses?"
            rf"|requests?|arguments?|contents?|history|code|answers?)){_gap(80)}\b(?:to|at|via|using|through|with|as"
            rf"|in)\b{_gap(30)}{_ADDRESS}"
        ),
        (
            rf"{_SEND}{_gap(60)}\b{_CONVERSATION}\b{_gap(60)}\b(?:param|arg|field|parameter|argument|header"
            rf"|query string|url|as (?:the |a )?(?:\W?\w{{1,30}}\W?)|in(?:to)? (?:the |this )?\W?\w{{1,30}}\W?)"
        ),
        (
            r"\b(?:all|any|every|each|outgoing) (?:\w+ )?(?:e-?mails?|messages?|mails?|payments?|transfers?|requests?"
            rf"|data|traffic|files?|results?)\b{_gap(40)}\b(?:must|should|shall|need to|have to|has to|are|is|be|go"
            rf"|will)\b{_gap(30)}\b(?:sent|forwarded|bcc|copied|cc|routed|redirected|delivered|addressed|go|proxied|paid"
            rf"|uploaded)\w*\b{_gap(40)}{_ADDRESS}"
        ),
        (
            r"!\[[^\]\n]{0,80}\]\(\s?https?://[^)\n]{0,200}(?:\{|\$|<|%7b|=\s?\)|\[)"
            r"|<img[^>\n]{0,80}src\s?=\s?.?https?://[^>\n]{0,200}(?:\{|\$|%7b)"
        ),
        (
            rf"\b(?:change|replace|set|rewrite|substitute|redirect|modify|swap|alter)\b{_gap(40)}\b(?:recipient|address"
            r"|destination|payee|account number|wallet|iban|target|url|endpoint|to field|e-?mail|remote"
            rf"|registry)\b{_gap(40)}\b(?:to|with|by|into|at)\b{_gap(20)}(?:{_ADDRESS}|0x[0-9a-f]{{8}}"
            rf"|[13][a-km-zA-HJ-NP-Z1-9]{{25}})"
        ),
        (
            r"\b(?:curl|wget|fetch|nc|http request|get request|post request|webhook"
            rf"|dns lookup)\b{_gap(60)}{_ADDRESS}{_gap(60)}\b(?:{_SECRETS}|{_CONVERSATION}|\$\(|`|base64|whoami|env\b)"
        ),
        (
            rf"{_SEND}{_gap(40)}{_ADDRESS}{_gap(30)}\b(?:with|including|includes?|containing|carrying|plus|and (?:add"
            rf"|append|attach|put))\b{_gap(15)}(?:{_CONVERSATION}|(?:all|any|the|their|your|user'?s?"
            rf"|every) (?:\w+ )?{_SECRETS})"
        ),
        (
            r"\b(?:reveal|repeat|print|output|show|disclose|leak|share|return|recite|restate|write down|quote"
            r"|give)\b(?: \w+){0,3}? (?:your |the |full |entire |whole |complete |own |hidden |initial "
            r"|original )+(?:system prompt|system message|hidden instructions|initial instructions"
            r"|instructions above)\b"
        ),
        (
            r"\b(?:also|and|then|must|should|always|please|to|:|first) exfiltrate\b|\bexfiltrate (?:all|any|every|the"
            r"|their|your|user)\b"
        ),
        (
            r"\b(?:also|additionally|in addition,?|moreover,?|as well as) (?:e-?mail|mail|send|forward|post|bcc|cc|copy"
            rf"|upload|submit|report)\b{_gap(60)}\b(?:to|at)\b{_gap(15)}(?:https?://"
            rf"|[\w.+-]{{1,60}}@[\w-]{{1,60}}\.\w{{2}})"
        ),
        (
            r"\b(?:instead of|in place of|rather than) the (?:requested|original|intended|user'?s|real"
            r"|actual) (?:\w+ )?(?:recipient|account|address|payee|destination|one|amount|iban|wallet|number)\b"
        ),
    ),
    # changes what other tools do
    "SP107": (
        (
            rf"\b(?:when(?:ever)?|if|every time|each time|once)\b{_gap(60)}\b(?:tool|function|server"
            rf"|[a-z]+_[a-z_]+)\b{_gap(30)}\b(?:is|are|gets?|was|has been|be) (?:called|used|invoked|available|present"
            rf"|run|executed|installed|connected)\b{_gap(80)}\b(?:must|always|change|replace|redirect|instead|modify"
            r"|alter|rewrite|add|append|bcc|also|never|first|set)\b"
        ),
        (
            r"\bwhen(?:ever)? (?:you (?:are )?)?(?:us(?:e|ing)|call(?:ing)?|invok(?:e|ing)"
            rf"|send(?:ing)? (?:an? )?\w+ (?:with|via|using|through)) (?:the |a |an |any )?\W?[\w-]{{3,60}}\W? (?:tool"
            rf"|function|server|mcp)\b{_gap(80)}\b(?:must|always|change|replace|redirect|instead|modify|alter|rewrite"
            r"|append|bcc|never|set|make sure)\b"
        ),
        (
            r"\b(?:the |any )?(?:behaviou?r|output|arguments?|parameters?|recipient|results?|response) of (?:the |any "
            rf"|all |another )?(?:\W?[\w-]{{3,60}}\W?|other) (?:tools?|functions?|servers?)\b{_gap(60)}\b(?:must|should"
            r"|has to|is to|will) be (?:changed|replaced|modified|ignored|altered|redirected|overridden|rewritten|set"
            r"|sent|appended)"
        ),
    ),
    # takes the approval of the user for granted
    "SP119": (
        (
            r"\b(?:do not|don'?t|never|no need to|must not|should not)(?: ever)? (?:ask|wait|request|seek|require"
            r"|prompt)\w*\b(?: (?:the |any |for |user|users?|human|their|explicit|a|again|to)\b)*? ?(?:the user "
            r"|them )?(?:for |about )?(?:any |a |the |explicit |user |further )*(?:confirmation|permission|approval"
            r"|consent|authori[sz]ation)\b"
        ),
        (
            r"\bpre-?(?:approved|authori[sz]ed|confirmed)\b|\b(?:user|owner|operator|admin(?:istrator)?) (?:has "
            r"|have )?already (?:approved|authori[sz]ed|consented|agreed|confirmed|granted|given (?:permission|consent"
            r"|approval))\b|\b(?:already|been) (?:approved|authori[sz]ed) by (?:the )?(?:user|owner|operator|admin)"
        ),
        (
            r"\b(?:skip|suppress|bypass|avoid|auto-?(?:accept|approve|confirm)|automatically (?:accept|approve"
            r"|confirm))\b(?: \w+){0,3}? (?:confirmation|permission|approval|consent)s?(?: \w+)?\b"
        ),
    ),
    # runs code from elsewhere
    "SP120": (
        (
            r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^\n]{0,120}?\| ?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:iex|eval"
            r"|exec)\b[^\n]{0,20}?(?:curl|wget|downloadstring|urlopen|https?://)"
        ),
        (
            rf"\b(?:download|fetch|get|retrieve|pull|curl|wget)\b{_gap(60)}https?://{_gap(100)}\b(?:run it|execute it"
            r"|run the|execute the|and (?:run|execute)|then (?:run|execute)|executable|chmod)\b"
        ),
        (
            r"\b(?:first|then|also|always|must|before you (?:answer|start|begin))\b,? (?:run|execute"
            r"|paste)\b[^\n]{0,40}?(?:`[^`\n]{3,200}`|\b(?:rm -rf|chmod|base64 -d|nc -|powershell|osascript|/dev/tcp))"
        ),
    ),
}
"""The patterns of each rule."""
