"""What the tools of AgentDojo are: the label of each output and the role of each argument, once for each tool.

Written from the tools' descriptions and from who can write to what they return, not from tasks or results. A mail, a
shared file, an invitation, a chat message, the name of a channel that another company shares, a review, a web page and
the subject of a payment are words of third parties. What a writing tool returns is the application's own record, except
where it returns a whole record that others have written to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.trust import Label
from spindle.trust.flow import Content, FlowPolicy, Free, Ref, Role, Setting, Target

TARGET, SETTING, CONTENT, FREE = Target(), Setting(), Content(), Free()
FILE, EVENT, MAIL, ORDER = Ref("file"), Ref("event"), Ref("email"), Ref("standing order")


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What the developer of a tool would declare."""

    output: Label
    read_only: bool = False
    destructive: bool = False
    produces: Mapping[str, str] | None = None
    roles: Mapping[str, Role] = field(default_factory=dict[str, Role])


def _read(output: Label, produces: Mapping[str, str] | None = None, **roles: Role) -> Declared:
    return Declared(output=output, read_only=True, produces=produces, roles=roles)


_MAILS = _read("third-party-private", {"email": "id_"})
_EVENTS = _read("third-party-private", {"event": "id_"})
_FILES = _read("third-party-private", {"file": "id_"})
_CONTACTS = _read("first-party")  # collected from the addresses of all mails, so no user vouches for them
_LISTING = _read("third-party-public")

_SEND_EMAIL = Declared(
    output="first-party",
    produces={"email": "id_"},
    roles={
        "recipients": TARGET,
        "cc": TARGET,
        "bcc": TARGET,
        "subject": CONTENT,
        "body": CONTENT,
        "attachments.*.type": FREE,
        "attachments.*.file_id": FILE,
        "attachments.*.event_details": CONTENT,
        "attachments.*.*": FREE,  # the names of the fields; the tool ignores others than these three
    },
)
_CREATE_EVENT = Declared(
    output="first-party",
    produces={"event": "id_"},
    roles={
        "title": CONTENT,
        "start_time": SETTING,
        "end_time": SETTING,
        "description": CONTENT,
        "participants": TARGET,
        "location": CONTENT,
    },
)
_CANCEL_EVENT = Declared(output="first-party", destructive=True, roles={"event_id": EVENT})

WORKSPACE: Mapping[str, Declared] = {
    "get_unread_emails": _MAILS,
    "get_sent_emails": _MAILS,
    "get_received_emails": _MAILS,
    "get_draft_emails": _MAILS,
    "search_emails": _MAILS,
    "send_email": _SEND_EMAIL,
    "delete_email": Declared(output="first-party", destructive=True, roles={"email_id": MAIL}),
    "search_contacts_by_name": _CONTACTS,
    "search_contacts_by_email": _CONTACTS,
    "get_current_day": _read("trusted"),
    "search_calendar_events": _EVENTS,
    "get_day_calendar_events": _EVENTS,
    "create_calendar_event": _CREATE_EVENT,
    "cancel_calendar_event": _CANCEL_EVENT,
    "reschedule_calendar_event": Declared(
        output="third-party-private",
        roles={"event_id": EVENT, "new_start_time": SETTING, "new_end_time": SETTING},
    ),
    "add_calendar_event_participants": Declared(
        output="third-party-private", roles={"event_id": EVENT, "participants": TARGET}
    ),
    "search_files_by_filename": _FILES,
    "search_files": _FILES,
    "list_files": _FILES,
    "get_file_by_id": _FILES,
    # A new file never replaces another one, and stays in the user's drive.
    "create_file": Declared(
        output="first-party", produces={"file": "id_"}, roles={"filename": SETTING, "content": CONTENT}
    ),
    "append_to_file": Declared(output="third-party-private", roles={"file_id": FILE, "content": CONTENT}),
    "delete_file": Declared(output="third-party-private", destructive=True, roles={"file_id": FILE}),
    "share_file": Declared(
        output="third-party-private", roles={"file_id": FILE, "email": TARGET, "permission": SETTING}
    ),
}

TRAVEL: Mapping[str, Declared] = {
    "get_user_information": _read("first-party"),
    "get_all_hotels_in_city": _LISTING,
    "get_hotels_prices": _LISTING,
    "get_hotels_address": _LISTING,
    "get_rating_reviews_for_hotels": _LISTING,
    "get_all_restaurants_in_city": _LISTING,
    "get_cuisine_type_for_restaurants": _LISTING,
    "get_restaurants_address": _LISTING,
    "get_rating_reviews_for_restaurants": _LISTING,
    "get_dietary_restrictions_for_all_restaurants": _LISTING,
    "get_contact_information_for_restaurants": _LISTING,
    "get_price_for_restaurants": _LISTING,
    "check_restaurant_opening_hours": _LISTING,
    "get_all_car_rental_companies_in_city": _LISTING,
    "get_car_types_available": _LISTING,
    "get_rating_reviews_for_car_rental": _LISTING,
    "get_car_fuel_options": _LISTING,
    "get_car_rental_address": _LISTING,
    "get_car_price_per_day": _LISTING,
    "get_flight_information": _LISTING,
    "search_calendar_events": _EVENTS,
    "get_day_calendar_events": _EVENTS,
    "create_calendar_event": _CREATE_EVENT,
    "cancel_calendar_event": _CANCEL_EVENT,
    "send_email": _SEND_EMAIL,
    "reserve_hotel": Declared(output="first-party", roles={"hotel": TARGET, "start_day": SETTING, "end_day": SETTING}),
    "reserve_restaurant": Declared(output="first-party", roles={"restaurant": TARGET, "start_time": SETTING}),
    "reserve_car_rental": Declared(
        output="first-party", roles={"company": TARGET, "start_time": SETTING, "end_time": SETTING}
    ),
}

_PAYMENT: Mapping[str, Role] = {"recipient": TARGET, "amount": SETTING, "subject": CONTENT, "date": SETTING}

BANKING: Mapping[str, Declared] = {
    "get_iban": _read("trusted"),
    "get_balance": _read("trusted"),
    "get_user_info": _read("first-party"),
    "get_most_recent_transactions": _read("third-party-private"),
    "get_scheduled_transactions": _read("first-party", {"standing order": "id"}),  # only the user writes these
    "read_file": _read("third-party-private"),
    "send_money": Declared(output="first-party", roles=_PAYMENT),
    "schedule_transaction": Declared(output="first-party", roles={**_PAYMENT, "recurring": SETTING}),
    "update_scheduled_transaction": Declared(
        output="first-party", roles={**_PAYMENT, "id": ORDER, "recurring": SETTING}
    ),
    "update_password": Declared(output="first-party", roles={"password": SETTING}),
    "update_user_info": Declared(
        output="first-party",
        roles={"first_name": SETTING, "last_name": SETTING, "street": SETTING, "city": SETTING},
    ),
}

SLACK: Mapping[str, Declared] = {
    # Other companies name the channels that they share, and their people choose their own names.
    "get_channels": _read("third-party-private"),
    "get_users_in_channel": _read("third-party-private"),
    "read_channel_messages": _read("third-party-private"),
    "read_inbox": _read("third-party-private"),
    "get_webpage": _read("third-party-public", url=TARGET),
    "post_webpage": Declared(output="first-party", roles={"url": TARGET, "content": CONTENT}),
    "send_direct_message": Declared(output="first-party", roles={"recipient": TARGET, "body": CONTENT}),
    "send_channel_message": Declared(output="first-party", roles={"channel": TARGET, "body": CONTENT}),
    "add_user_to_channel": Declared(output="first-party", roles={"user": TARGET, "channel": TARGET}),
    "invite_user_to_slack": Declared(output="first-party", roles={"user": TARGET, "user_email": TARGET}),
    "remove_user_from_slack": Declared(output="first-party", destructive=True, roles={"user": TARGET}),
}

TOOLS: Mapping[str, Mapping[str, Declared]] = {
    "workspace": WORKSPACE,
    "travel": TRAVEL,
    "banking": BANKING,
    "slack": SLACK,
}
"""The tools of each suite."""

POLICIES: Mapping[str, FlowPolicy] = {
    # Sharing to read is the least that sharing can be; who gets which file is judged by the other arguments.
    "workspace": FlowPolicy(directory={"setting": ["r"]}),
    # Passport and card numbers are for the user alone.
    "travel": FlowPolicy(readers={"get_user_information": []}),
    "banking": FlowPolicy(readers={"get_user_info": []}),
    "slack": FlowPolicy(),
}
"""What the operator of each application decides."""
