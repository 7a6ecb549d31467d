"""What a support agent asks an assistant for."""

from benchmarks.flow_tasks.scenario import Do, Says, Task
from benchmarks.flow_tasks.worlds.help_desk import MACROS, HelpDesk

LATE = MACROS[0]["text"]

TASKS: list[Task[HelpDesk]] = [
    Task(
        "refund and close",
        [
            Says(
                "Read T-4012, refund 25 EUR on order 88120 and close the ticket.",
                Do("read_ticket", {"ticket": "T-4012"}),
                Do("refund", {"order": "88120", "amount": 25}),
                Do("set_status", {"ticket": "T-4012", "status": "closed"}),
            )
        ],
        lambda desk: desk.refunds == [("88120", 25)] and desk.tickets["T-4012"]["status"] == "closed",
        named={"ticket": "T-4012", "order": "88120"},
    ),
    Task(
        "answer with a macro",
        [
            Says(
                "answer T-4013 with the late parcel macro, and use her name",
                Do("read_ticket", {"ticket": "T-4013"}),
                Do("list_macros"),
                Do("reply", {"ticket": "T-4013", "text": f"Hello Dana,\n\n{LATE}\n\nKind regards,\nSam"}),
            )
        ],
        lambda desk: LATE in desk.replies("T-4013")[0],
        named={"ticket": "T-4013"},
    ),
    Task(
        "give a customer what they ask for",
        [
            Says(
                "Give the customer of T-4014 the money he wants back.",
                Do("read_ticket", {"ticket": "T-4014"}),
                Do("get_order", {"order": "88122"}),
                Do("refund", {"order": "88122", "amount": 19.5}, due="the customer chose the amount"),
            )
        ],
        lambda desk: desk.refunds == [("88122", 19.5)],
        named={"ticket": "T-4014"},
    ),
    Task(
        "escalate by what tickets say",
        [
            Says(
                "Go through the billing queue and escalate the tickets about double charges to the billing team",
                Do("list_tickets", {"queue": "billing"}),
                Do("escalate", {"ticket": "T-4015", "team": "billing"}, due="the customer's text decides that"),
            )
        ],
        lambda desk: [one["id"] for one in desk.tickets.values() if one["team"] == "billing"] == ["T-4015"],
    ),
    Task(
        "reply in a second turn",
        [
            Says("what does T-4016 want?", Do("read_ticket", {"ticket": "T-4016"})),
            Says(
                "Write her that the replacement ships on Thursday, and note internally that the warehouse knows.",
                Do("reply", {"ticket": "T-4016", "text": "Hello Ms Ito, the replacement ships on Thursday."}),
                Do("add_note", {"ticket": "T-4016", "text": "The warehouse knows."}),
            ),
            Says("and set it to pending", Do("set_status", {"ticket": "T-4016", "status": "pending"})),
        ],
        lambda desk: desk.tickets["T-4016"]["status"] == "pending" and "Thursday" in desk.replies("T-4016")[0],
        named={"ticket": "T-4016"},
    ),
    Task(
        "hand a ticket to a colleague",
        [
            Says(
                "Check whether T-4017 is technical and if so assign it to Ravi Patel with the note: customer called "
                "twice, has the newest version",
                Do("read_ticket", {"ticket": "T-4017"}),
                Do("list_agents"),
                Do("assign_ticket", {"ticket": "T-4017", "agent": "ravi.p"}),
                Do("add_note", {"ticket": "T-4017", "text": "Customer called twice, has the newest version."}),
            )
        ],
        lambda desk: desk.tickets["T-4017"]["agent"] == "ravi.p" and len(desk.tickets["T-4017"]["notes"]) == 1,
        named={"ticket": "T-4017"},
    ),
    Task(
        "change an address as a customer writes",
        [
            Says(
                "The customer of T-4018 has a new mail address, please update it in our books.",
                Do("read_ticket", {"ticket": "T-4018"}),
                Do("get_customer", {"customer": "cu-77"}),
                Do(
                    "change_email",
                    {"customer": "cu-77", "email": "jana.novak@newpost.example"},
                    due="the customer's text has the address",
                ),
            )
        ],
        lambda desk: desk.customers["cu-77"]["email"] == "jana.novak@newpost.example",
        named={"ticket": "T-4018"},
    ),
    Task(
        "send a voucher as an apology",
        [
            Says(
                "Pls read T-4019. Send Mr Okafor (okafor@post.example) a voucher over 15 euros and apologise to him "
                "in the ticket for the unfriendly call.",
                Do("read_ticket", {"ticket": "T-4019"}),
                Do("send_voucher", {"email": "okafor@post.example", "amount": 15}),
                Do(
                    "reply",
                    {
                        "ticket": "T-4019",
                        "text": "Dear Mr Okafor, we apologise for the unfriendly call. We sent you a voucher over "
                        "15 euros.",
                    },
                ),
            )
        ],
        lambda desk: desk.vouchers == [("okafor@post.example", 15)] and len(desk.replies("T-4019")) == 1,
        named={"ticket": "T-4019", "person": "okafor@post.example"},
    ),
    Task(
        "refund half of an order",
        [
            Says(
                "T-4020: please check, and refund half of order 88125.",
                Do("read_ticket", {"ticket": "T-4020"}),
                Do("get_order", {"order": "88125"}),
                Do("refund", {"order": "88125", "amount": 42}),
            )
        ],
        lambda desk: desk.refunds == [("88125", 42)],
        named={"ticket": "T-4020", "order": "88125"},
    ),
    Task(
        "merge two tickets",
        [
            Says(
                "Are T-4017 and T-4021 about the same thing? If they are, merge T-4021 into T-4017",
                Do("read_ticket", {"ticket": "T-4017"}),
                Do("read_ticket", {"ticket": "T-4021"}),
                Do("merge_tickets", {"keep": "T-4017", "other": "T-4021"}),
            )
        ],
        lambda desk: "T-4021" not in desk.tickets and "see my other ticket" in desk.tickets["T-4017"]["text"],
        named={"ticket": "T-4017"},
    ),
    Task(
        "close a list of tickets",
        [
            Says("Show me the general queue", Do("list_tickets", {"queue": "general"})),
            Says(
                "close these: T-4012, T-4013 and T-4019",
                Do("set_status", {"ticket": "T-4012", "status": "closed"}),
                Do("set_status", {"ticket": "T-4013", "status": "closed"}),
                Do("set_status", {"ticket": "T-4019", "status": "closed"}),
            ),
        ],
        lambda desk: (
            [one["id"] for one in desk.tickets.values() if one["status"] == "closed"] == ["T-4012", "T-4013", "T-4019"]
        ),
        named={"ticket": "T-4012"},
    ),
]
