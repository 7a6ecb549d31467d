"""The tickets of a journal, as a server and `spindle approvals` find them."""

from spindle import Journal
from spindle.execution.ticket_settings import TicketSettings
from spindle.execution.tickets import TicketOffice, open_office


def open_tickets(journal: Journal, state_key: str) -> TicketOffice | None:
    """Return the ticket office of a journal."""
    return open_office(TicketSettings(journal, state_key, ttl_seconds=60, policy=None))


async def sign_ticket(journal: Journal, state_key: str, approval_id: str) -> str | None:
    """Return the text of a ticket, or `None` if the journal does not know the approval."""
    office = open_office(TicketSettings(journal, state_key, ttl_seconds=1, policy=None))
    ticket = None if office is None else await office.get(approval_id)
    return None if office is None or ticket is None else office.sign(ticket)
