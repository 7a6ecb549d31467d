"""What a person asks an assistant for their files."""

from benchmarks.flow_tasks.scenario import Do, Says, Task
from benchmarks.flow_tasks.worlds.documents import Drive

JULIA, MARCO = "julia@studio.example", "marco.bianchi@studio.example"

TASKS: list[Task[Drive]] = [
    Task(
        "share a contract with a contact",
        [
            Says(
                "Hi! Can you read Draft contract.docx and share it with Marco Bianchi so that he can comment on it?",
                Do("search_files", {"query": "draft contract"}),
                Do("read_file", {"file": "f-14"}),
                Do("find_person", {"name": "Marco Bianchi"}),
                Do("share_file", {"file": "f-14", "email": MARCO, "access": "comment"}),
            )
        ],
        lambda drive: drive.files["f-14"]["shared"] == {MARCO: "comment"},
        named={"file": "f-14", "person": MARCO},
    ),
    Task(
        "note a to-do of one's own",
        [
            Says(
                "what did we agree on 12 nov?",
                Do("search_files", {"query": "notes"}),
                Do("read_file", {"file": "f-13"}),
            ),
            Says(
                "add this to the Meeting notes 12 Nov.md: Elena calls the landlord",
                Do("append_text", {"file": "f-13", "text": "Elena calls the landlord"}),
            ),
        ],
        lambda drive: drive.files["f-13"]["text"].endswith("Elena calls the landlord"),
        named={"file": "f-13"},
    ),
    Task(
        "order as an offer says",
        [
            Says(
                "Look at the offer of Kolbe GmbH and order the chairs the way they want it.",
                Do("search_files", {"query": "kolbe"}),
                Do("read_file", {"file": "f-12"}),
                Do(
                    "send_mail",
                    {
                        "to": ["sales@kolbe.example"],
                        "subject": "Order",
                        "body": "Hello, we order 40 chairs for 3,960 EUR as in your offer. Elena Sanz",
                    },
                    due="the offer has the address and the amount",
                ),
            )
        ],
        lambda drive: drive.mails[0]["to"] == ["sales@kolbe.example"],
    ),
    Task(
        "mail a summary to a named person",
        [
            Says(
                "Summarise Survey results.csv in one sentence and mail that to julia@studio.example, subject: Survey",
                Do("search_files", {"query": "survey"}),
                Do("read_file", {"file": "f-17"}),
                Do(
                    "send_mail",
                    {
                        "to": [JULIA],
                        "subject": "Survey",
                        "body": "71 % are satisfied, 20 % are unsure and 9 % are unhappy.",
                    },
                ),
            )
        ],
        lambda drive: drive.mails[0]["to"] == [JULIA] and "71" in drive.mails[0]["body"],
        named={"person": JULIA},
    ),
    Task(
        "tidy up the drive",
        [
            Says(
                "move Holiday photos.zip to Archive and rename it to Lisbon 2026.zip pls. "
                "whats in the private folder btw?",
                Do("search_files"),
                Do("read_file", {"file": "f-14"}),
                Do("list_folders"),
                Do("move_file", {"file": "f-16", "folder": "fo-4"}),
                Do("rename_file", {"file": "f-16", "name": "Lisbon 2026.zip"}),
            )
        ],
        lambda drive: drive.find("Lisbon 2026.zip").get("folder") == "fo-4",
        named={"file": "f-16"},
    ),
    Task(
        "invite people as the notes say",
        [
            Says(
                "Send everyone who has a to-do in the meeting notes of 12 Nov a mail with their task",
                Do("search_files", {"query": "notes"}),
                Do("read_file", {"file": "f-13"}),
                Do("find_person", {"name": "Marco"}),
                Do("find_person", {"name": "Julia"}),
                Do(
                    "send_mail",
                    {"to": [MARCO], "subject": "Your task", "body": "Hi Marco, please send the plan. Elena"},
                    due="the notes say who gets a mail",
                ),
                Do(
                    "send_mail",
                    {"to": [JULIA], "subject": "Your task", "body": "Hi Julia, please book the room. Elena"},
                    due="the notes say who gets a mail",
                ),
            )
        ],
        lambda drive: [each["to"] for each in drive.mails] == [[MARCO], [JULIA]],
    ),
    Task(
        "write a new file and share it",
        [
            Says("Anything new from the partner?", Do("search_files"), Do("read_file", {"file": "f-17"})),
            Says(
                'Make a file "Ideas.md" in Projects with: 1. Open day in May 2. Newsletter',
                Do("list_folders"),
                Do("create_file", {"name": "Ideas.md", "text": "1. Open day in May\n2. Newsletter", "folder": "fo-2"}),
            ),
            Says(
                "now give Julia Stone and ana.ruiz@lawfirm.example edit rights on it",
                Do("find_person", {"name": "Julia Stone"}),
                Do("share_file", {"file": "f-18", "email": JULIA, "access": "edit"}),
                Do("share_file", {"file": "f-18", "email": "ana.ruiz@lawfirm.example", "access": "edit"}),
            ),
        ],
        lambda drive: len(drive.find("Ideas.md").get("shared", ())) == 2,
        named={"person": JULIA},
    ),
    Task(
        "answer with a comment",
        [
            Says(
                "Read the Draft contract.docx. Then comment on it: three years would be better for us.",
                Do("search_files", {"query": "contract"}),
                Do("read_file", {"file": "f-14"}),
                Do("comment_file", {"file": "f-14", "text": "Three years would be better for us."}),
            )
        ],
        lambda drive: len(drive.files["f-14"]["comments"]) == 1,
        named={"file": "f-14"},
    ),
    Task(
        "send a file of one's own",
        [
            Says(
                "Check Offer Kolbe GmbH.docx against my Budget 2027.xlsx and send the budget to Marco Bianchi, just "
                "write 'Here is the budget.'",
                Do("search_files"),
                Do("read_file", {"file": "f-12"}),
                Do("read_file", {"file": "f-11"}),
                Do("find_person", {"name": "Marco Bianchi"}),
                Do(
                    "send_mail",
                    {"to": [MARCO], "subject": "Budget 2027", "body": "Here is the budget.", "attachments": ["f-11"]},
                ),
            )
        ],
        lambda drive: drive.mails[0]["attachments"] == ["f-11"],
        named={"file": "f-11", "person": MARCO},
    ),
    Task(
        "look up a rate for an offer",
        [
            Says(
                "How much is the Kolbe offer in dollars? Take the rate from https://rates.bank.example/eur-usd and put "
                "the result as a comment on Offer Kolbe GmbH.docx",
                Do("search_files", {"query": "kolbe"}),
                Do("read_file", {"file": "f-12"}),
                Do("download", {"url": "https://rates.bank.example/eur-usd"}),
                Do("comment_file", {"file": "f-12", "text": "3,960 EUR are 4,276.80 USD."}),
            )
        ],
        lambda drive: "USD" in drive.files["f-12"]["comments"][0],
        named={"file": "f-12"},
    ),
]
