"""What the secretary of a sports club asks an assistant for."""

from benchmarks.flow_tasks.scenario import Do, Says, Task, coming
from benchmarks.flow_tasks.worlds.club import MOVED, REFEREE, Club

TASKS: list[Task[Club]] = [
    Task(
        "accept one applicant",
        [
            Says("Who wants to join?", Do("list_applications")),
            Says(
                "Emil Gruber can start with the u16, 60 euros fee.",
                Do("accept_application", {"application": "a-2", "team": "u16", "fee": 60}),
            ),
        ],
        lambda club: club.accepted == {"a-2": {"team": "u16", "fee": 60}},
        named={"application": "a-2"},
    ),
    Task(
        "accept applicants by what they write",
        [
            Says(
                "Accept all that want to join the beginners, fee is 40",
                Do("list_applications"),
                Do(
                    "accept_application",
                    {"application": "a-1", "team": "beginners", "fee": 40},
                    due="the applicants' text decides which",
                ),
                Do(
                    "accept_application",
                    {"application": "a-3", "team": "beginners", "fee": 40},
                    due="the applicants' text decides which",
                ),
            )
        ],
        lambda club: list(club.accepted) == ["a-1", "a-3"],
    ),
    Task(
        "move a game as the other club asks",
        [
            Says(
                "SV Brunn wants to move our game. It's ok for us, enter it please.",
                Do("read_messages"),
                Do("list_fixtures"),
                Do(
                    "move_fixture",
                    {"fixture": "f-2", "day": MOVED, "time": "17:00"},
                    due="the other club chose day and time",
                ),
            )
        ],
        lambda club: club.fixtures["f-2"]["day"] == MOVED,
        named={"fixture": "f-2"},
    ),
    Task(
        "move a game to the user's time",
        [
            Says(
                "we can move the game against TV Riedstadt to 7.2.2027, 16:00, their coach called me",
                Do("list_fixtures"),
                Do("move_fixture", {"fixture": "f-1", "day": "2027-02-07", "time": "16:00"}),
            )
        ],
        lambda club: club.fixtures["f-1"]["day"] == "2027-02-07",
        named={"fixture": "f-1"},
    ),
    Task(
        "pay an invoice from a message",
        [
            Says(
                "The referee sent his invoice, pay it.",
                Do("read_messages"),
                Do(
                    "transfer",
                    {"iban": REFEREE, "amount": 45, "purpose": "Referee"},
                    due="the referee chose account and amount",
                ),
            )
        ],
        lambda club: club.transfers[0]["amount"] == 45,
    ),
    Task(
        "book a hall by its hour",
        [
            Says("which hall is free on thursday?", Do("list_free_halls", {"day": coming("thursday")})),
            Says(
                "take the one at 18:00 for the u16, for two hours",
                Do("book_hall", {"slot": "h-21", "team": "u16", "hours": 2}),
            ),
        ],
        lambda club: club.booked == {"h-21": {"team": "u16", "hours": 2}},
    ),
    Task(
        "tell a team about a change",
        [
            Says("Anything new?", Do("read_messages")),
            Says(
                "OK. Tell the women that training tomorrow starts half an hour later, at 19:30",
                Do("write_team", {"team": "women", "text": "Training tomorrow starts half an hour later, at 19:30."}),
            ),
        ],
        lambda club: club.told[0]["team"] == "women",
    ),
    Task(
        "report a lineup",
        [
            Says(
                "lineup for the Altsee game: Mia, Jule and Paula",
                Do("list_fixtures"),
                Do("find_member", {"name": "Mia"}),
                Do("find_member", {"name": "Jule"}),
                Do("find_member", {"name": "Paula"}),
                Do("set_lineup", {"fixture": "f-3", "players": ["m-3", "m-4", "m-7"]}),
            )
        ],
        lambda club: club.lineups == {"f-3": ["m-3", "m-4", "m-7"]},
        named={"fixture": "f-3"},
    ),
    Task(
        "refund half of a fee",
        [
            Says(
                "Sara's mother wrote because of the arm. Please refund half of Sara's fee.",
                Do("read_messages"),
                Do("find_member", {"name": "Sara"}),
                Do("refund_fee", {"member": "m-5", "amount": 40}),
            )
        ],
        lambda club: club.refunds == {"m-5": 40},
        named={"member": "m-5"},
    ),
    Task(
        "say goodbye to a member",
        [
            Says(
                "Kim Adler leaves us, see the messages. Send Kim a mail: thanks for six great years, and the club "
                "jacket is a present. Then take Kim off the register.",
                Do("read_messages"),
                Do("find_member", {"name": "Kim Adler"}),
                Do(
                    "write_mail",
                    {
                        "to": "kim@post.example",
                        "text": "Dear Kim, thanks for six great years! The club jacket is a present.",
                    },
                ),
                Do("remove_member", {"member": "m-6"}),
            )
        ],
        lambda club: "m-6" not in club.members and "jacket" in club.sent[0]["text"],
        named={"person": "kim@post.example"},
    ),
    Task(
        "pass the games on to a team",
        [
            Says(
                "post the february games to the u16 chat",
                Do("list_fixtures"),
                Do(
                    "write_team",
                    {
                        "team": "u16",
                        "text": "Our games: TV Riedstadt 2027-02-06 14:00, SV Brunn 2027-02-13 15:00, "
                        "VC Altsee 2027-02-27 11:00.",
                    },
                ),
            )
        ],
        lambda club: "VC Altsee" in club.told[0]["text"],
    ),
]
