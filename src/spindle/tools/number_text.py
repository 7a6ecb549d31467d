"""How numbers are spelled in canonical JSON. No I/O, no state."""

_PIECE_DIGITS = 512  # below 640, the lowest limit `sys.set_int_max_str_digits` can be given
_PIECE = 10**_PIECE_DIGITS


def float_text(number: float) -> str:
    """Spell a finite float the way ECMAScript does, which is what RFC 8785 asks for."""
    mantissa, _, exponent = float.__repr__(number).partition("e")
    if not exponent:
        text = mantissa.removesuffix(".0")
        return "0" if text == "-0" else text
    # Python and ECMAScript agree on the shortest digits, and differ only in where the exponent form begins.
    sign = "-" if mantissa.startswith("-") else ""
    return sign + _place_point(mantissa.lstrip("-").replace(".", ""), point=int(exponent) + 1)


def _place_point(digits: str, *, point: int) -> str:
    if 0 < point <= 21:
        # Python begins its exponent form at 1e16 and needs at most 17 digits, so no digit is right of the point.
        return digits.ljust(point, "0")
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = "." + digits[1:] if digits[1:] else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def integer_text(number: int) -> str:
    """Spell an integer with all its digits, however many there are."""
    try:
        return int.__repr__(number)
    except ValueError:  # longer than `sys.get_int_max_str_digits()`
        return ("-" if number < 0 else "") + _all_digits(int.__abs__(number))


def _all_digits(number: int) -> str:
    powers = [_PIECE]
    while (square := powers[-1] ** 2) <= number:
        powers.append(square)
    pieces = [number]
    for power in reversed(powers):
        pieces = [part for piece in pieces for part in divmod(piece, power)]
    return "".join(f"{piece:0{_PIECE_DIGITS}d}" for piece in pieces).lstrip("0")
