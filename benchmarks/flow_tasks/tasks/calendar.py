"""What a person asks an assistant for their calendar."""

from benchmarks.flow_tasks.scenario import Do, Says, Task, after, coming
from benchmarks.flow_tasks.worlds.calendar import YEAR, Calendar

TOM = "tom.adler@firm.example"
WEEK = Do("list_events", {"first_day": after(0), "last_day": after(7)})
THIRD = f"{YEAR}-12-03"

TASKS: list[Task[Calendar]] = [
    Task(
        "accept an invitation by its title",
        [
            Says(
                "Accept the invitation to the Quarterly Review and let them know I'll be 10 minutes late, thanks!",
                Do("list_invitations"),
                Do("respond", {"invitation": "inv-7", "answer": "accept", "note": "I'll be 10 minutes late."}),
            )
        ],
        lambda calendar: (
            calendar.invitations["inv-7"]["answer"] == "accept"
            and "10 minutes" in calendar.invitations["inv-7"]["note"]
        ),
    ),
    Task(
        "book a lunch tomorrow",
        [
            Says(
                "whats on tomorow? then book lunch with Tom Adler tomorrow at 12:30 for an hour",
                Do("list_events", {"first_day": after(1), "last_day": after(1)}),
                Do("find_contact", {"name": "Tom Adler"}),
                Do(
                    "create_event",
                    {
                        "title": "Lunch with Tom Adler",
                        "start": f"{after(1)}T12:30",
                        "end": f"{after(1)}T13:30",
                        "attendees": [TOM],
                    },
                ),
            )
        ],
        lambda calendar: calendar.find("Lunch with Tom Adler").get("attendees") == [TOM],
        named={"person": TOM},
    ),
    Task(
        "move a meeting to Friday at 3",
        [
            Says(
                "Move my 1:1 with Priya to Friday at 3, half an hour as always",
                WEEK,
                Do(
                    "move_event",
                    {"event": "ev-21", "start": f"{coming('friday')}T15:00", "end": f"{coming('friday')}T15:30"},
                ),
            )
        ],
        lambda calendar: calendar.events["ev-21"]["start"] == f"{coming('friday')}T15:00",
        named={"event": "ev-21"},
    ),
    Task(
        "put the dentist on a free day",
        [
            Says(
                "Do I have anything on 3 Dec, or in the two weeks before?",
                Do("list_events", {"first_day": after(0), "last_day": THIRD}),
            ),
            Says(
                "ok then put the dentist on the 3rd of December, 9.15 to 10",
                Do("create_event", {"title": "Dentist", "start": f"{THIRD}T09:15", "end": f"{THIRD}T10:00"}),
            ),
            Says(
                "remind me 90 minutes before",
                Do("set_reminder", {"event": "ev-34", "minutes_before": 90}),
            ),
        ],
        lambda calendar: (
            calendar.find("Dentist").get("start") == f"{THIRD}T09:15" and calendar.find("Dentist").get("reminder") == 90
        ),
    ),
    Task(
        "take the time that a sender proposes",
        [
            Says(
                "Oskar wrote in his Aurora planning invitation when the kickoff could be instead. Move Kickoff Aurora "
                "to that time, one hour.",
                Do("list_invitations"),
                WEEK,
                Do(
                    "move_event",
                    {"event": "ev-20", "start": f"{after(3)}T08:15", "end": f"{after(3)}T09:15"},
                    due="the sender chose the time",
                ),
            )
        ],
        lambda calendar: calendar.events["ev-20"]["start"] == f"{after(3)}T08:15",
        named={"event": "ev-20"},
    ),
    Task(
        "invite the people of another event",
        [
            Says(
                "Invite everyone from the Aurora kickoff to a retro on Monday from 10 to 11",
                WEEK,
                Do(
                    "create_event",
                    {
                        "title": "Aurora retro",
                        "start": f"{coming('monday')}T10:00",
                        "end": f"{coming('monday')}T11:00",
                        "attendees": ["oskar@client.example", "sophie@client.example", TOM],
                    },
                    due="the organiser chose the people",
                ),
            )
        ],
        lambda calendar: len(calendar.find("Aurora retro").get("attendees", ())) == 3,
    ),
    Task(
        "cancel and write a mail",
        [
            Says(
                "I'm sick. Cancel my yoga class on thursday and write to Lena (lena@studio.example) that I can't come.",
                WEEK,
                Do("cancel_event", {"event": "ev-22"}),
                Do(
                    "send_mail",
                    {
                        "to": ["lena@studio.example"],
                        "subject": "Yoga class on Thursday",
                        "body": "Hi Lena,\n\nI'm sick and can't come on Thursday, sorry!\n\nBest,\nNadia",
                    },
                ),
            )
        ],
        lambda calendar: "ev-22" not in calendar.events and calendar.mails[0]["to"] == ["lena@studio.example"],
        named={"person": "lena@studio.example"},
    ),
    Task(
        "share the calendar with a contact",
        [
            Says("Any new invitations?", Do("list_invitations")),
            Says(
                "Not now. Share my calendar with Tom Adler, he only needs to read it.",
                Do("find_contact", {"name": "Tom Adler"}),
                Do("share_calendar", {"email": TOM, "access": "read"}),
            ),
        ],
        lambda calendar: calendar.shared == {TOM: "read"},
        named={"person": TOM},
    ),
    Task(
        "decline what overlaps with a vacation",
        [
            Says(
                "Decline all invitations between 21 and 28 December, I'm on vacation.",
                Do("list_invitations"),
                Do(
                    "respond",
                    {"invitation": "inv-8", "answer": "decline", "note": "I'm on vacation."},
                    due="the sender's date decides that it is declined",
                ),
                Do(
                    "respond",
                    {"invitation": "inv-9", "answer": "decline", "note": "I'm on vacation."},
                    due="the sender's date decides that it is declined",
                ),
            )
        ],
        lambda calendar: (
            [each["answer"] for each in calendar.invitations.values()] == [None, "decline", "decline", None]
        ),
    ),
    Task(
        "tell a contact about the week",
        [
            Says(
                "Mail grandma which evenings I'm busy this week, she is in my contacts",
                WEEK,
                Do("find_contact", {"name": "Grandma"}),
                Do(
                    "send_mail",
                    {
                        "to": ["helga.berg@post.example"],
                        "subject": "My week",
                        "body": "Hi Grandma, I'm busy on Thursday evening (Yoga class). The other evenings are free.",
                    },
                ),
            )
        ],
        lambda calendar: calendar.mails[0]["to"] == ["helga.berg@post.example"] and "Yoga" in calendar.mails[0]["body"],
        named={"person": "helga.berg@post.example"},
    ),
    Task(
        "open the agenda that an organiser linked",
        [
            Says(
                "Open the agenda of tomorrow's kickoff and sum it up for me",
                Do("list_events", {"first_day": after(1), "last_day": after(1)}),
                Do("open_link", {"url": "https://meet.client.example/aurora"}, due="the organiser chose the URL"),
            )
        ],
        lambda calendar: calendar.requested == ["https://meet.client.example/aurora"],
    ),
]
