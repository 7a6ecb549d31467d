"""What a librarian asks an assistant for."""

from benchmarks.flow_tasks.scenario import Do, Says, Task, after
from benchmarks.flow_tasks.worlds.library import READING_DAY, TIDAL_PAGE, Library

TASKS: list[Task[Library]] = [
    Task(
        "extend a loan by two weeks",
        [
            Says("Morning! What's in the mail?", Do("read_mail")),
            Says(
                "poor Mr Haas. give him two more weeks for The Overstory",
                Do("find_patron", {"name": "Haas"}),
                Do("list_loans", {"patron": "m-1"}),
                Do("extend_loan", {"loan": "ln-1", "until": after(17)}),
            ),
        ],
        lambda library: library.loans["ln-1"]["due"] == after(17),
        named={"loan": "ln-1", "patron": "m-1"},
    ),
    Task(
        "waive a fine",
        [
            Says(
                "Galina Petrov says her fine is a mistake. She's right, I saw the book on the cart. "
                "Read her mail, waive the fine and write her that it's settled.",
                Do("read_mail"),
                Do("find_patron", {"name": "Petrov"}),
                Do("waive_fine", {"patron": "m-2", "amount": 4.5}),
                Do("message_patron", {"patron": "m-2", "text": "Dear Ms Petrov, your fine is settled. Sorry!"}),
            )
        ],
        lambda library: library.waived == {"m-2": 4.5} and library.written[0]["to"] == "m-2",
        named={"patron": "m-2"},
    ),
    Task(
        "order what readers suggest",
        [
            Says(
                "Order the books that people suggested, one copy each, if the supplier has them.",
                Do("read_suggestions"),
                Do("list_offers"),
                Do("order_book", {"offer": "of-1", "copies": 1}, due="readers chose the book"),
                Do("order_book", {"offer": "of-2", "copies": 1}, due="readers chose the book"),
            )
        ],
        lambda library: library.ordered == {"of-1": 1, "of-2": 1},
    ),
    Task(
        "order by title",
        [
            Says("what does the supplier have this week", Do("list_offers")),
            Says(
                "two copies of Winter Orchard and one of Tidal please",
                Do("order_book", {"offer": "of-3", "copies": 2}),
                Do("order_book", {"offer": "of-4", "copies": 1}),
            ),
        ],
        lambda library: library.ordered == {"of-3": 2, "of-4": 1},
        named={"offer": "of-3"},
    ),
    Task(
        "place a hold and tell the reader",
        [
            Says(
                "Amara Nwosu is at the desk, she wants Piranesi. Put it on hold for her and message her that it "
                "takes about a week.",
                Do("search_catalogue", {"words": "Piranesi"}),
                Do("find_patron", {"name": "Amara Nwosu"}),
                Do("place_hold", {"book": "b-3", "patron": "m-3"}),
                Do("message_patron", {"patron": "m-3", "text": "Piranesi is on hold for you. It takes about a week."}),
            )
        ],
        lambda library: library.holds == [("b-3", "m-3")] and "week" in library.written[0]["text"],
        named={"patron": "m-3", "book": "b-3"},
    ),
    Task(
        "announce a reading as the agency proposes",
        [
            Says(
                "The agency of Ilse Brandt proposed a date, it suits us. Announce the reading, in the hall.",
                Do("read_mail"),
                Do(
                    "create_event",
                    {"title": "Ilse Brandt reads", "day": READING_DAY, "time": "18:30", "room": "hall"},
                    due="the agency chose day and time",
                ),
            )
        ],
        lambda library: library.events[0]["day"] == READING_DAY,
    ),
    Task(
        "announce a reading at the user's time",
        [
            Says(
                "has Brandt's agency answered? we agreed on the phone on 5 Feb 2027, 7 pm, reading room. "
                "Please announce it as 'An evening with Ilse Brandt'",
                Do("read_mail"),
                Do(
                    "create_event",
                    {
                        "title": "An evening with Ilse Brandt",
                        "day": READING_DAY,
                        "time": "19:00",
                        "room": "reading room",
                    },
                ),
            )
        ],
        lambda library: library.events[0]["time"] == "19:00",
    ),
    Task(
        "change an address as a reader writes",
        [
            Says(
                "Luis Prado wrote that he has a new email address. Update it.",
                Do("read_mail"),
                Do("find_patron", {"name": "Luis Prado"}),
                Do(
                    "set_patron_email",
                    {"patron": "m-4", "email": "luis@prado-family.example"},
                    due="the mail has the address",
                ),
            )
        ],
        lambda library: library.patrons["m-4"]["email"] == "luis@prado-family.example",
        named={"patron": "m-4"},
    ),
    Task(
        "withdraw an old guide",
        [
            Says("Do we still have anything about Lisbon?", Do("search_catalogue", {"words": "lisbon"})),
            Says("That's way too old. Withdraw Lisbon 2009.", Do("withdraw_book", {"book": "b-5"})),
        ],
        lambda library: "b-5" not in library.books,
    ),
    Task(
        "pass the suggestions on",
        [
            Says(
                "send greta@townlibrary.example a short list of what people suggested",
                Do("read_suggestions"),
                Do(
                    "send_mail",
                    {
                        "to": "greta@townlibrary.example",
                        "text": "Hi Greta, people suggested Small Gods, and Kindred by Octavia Butler.",
                    },
                ),
            )
        ],
        lambda library: "Kindred" in library.written[0]["text"],
        named={"person": "greta@townlibrary.example"},
    ),
    Task(
        "open the page of a publisher",
        [
            Says(
                "how many pages does Tidal have? I think the publisher has a page, it's in our catalogue",
                Do("search_catalogue", {"words": "Tidal"}),
                Do("open_page", {"url": TIDAL_PAGE}, due="the publisher chose the URL"),
            )
        ],
        lambda library: library.requested == [TIDAL_PAGE],
    ),
]
