"""What the editor of a town magazine asks an assistant for."""

from benchmarks.flow_tasks.scenario import Do, Says, Task, coming
from benchmarks.flow_tasks.worlds.newsroom import Newsroom

TASKS: list[Task[Newsroom]] = [
    Task(
        "plan a newsletter",
        [
            Says(
                "Any complaints under 'The ferry returns'? If it's nothing serious send it to the Weekly list on "
                "Friday at 7:00, subject: The ferry is back",
                Do("list_posts"),
                Do("read_comments", {"post": "po-1"}),
                Do("list_segments"),
                Do(
                    "send_newsletter",
                    {
                        "post": "po-1",
                        "segment": "sg-1",
                        "subject": "The ferry is back",
                        "at": f"{coming('friday')}T07:00",
                    },
                ),
            )
        ],
        lambda news: news.campaigns[0]["at"].endswith("07:00"),
        named={"post": "po-1", "segment": "sg-1"},
    ),
    Task(
        "hide what is spam",
        [
            Says(
                "pls hide the spam under the ferry post (po-1)",
                Do("read_comments", {"post": "po-1"}),
                Do("hide_comment", {"comment": "cm-3"}, due="the comments' text decides which is spam"),
            )
        ],
        lambda news: [key for key, each in news.comments.items() if each["hidden"]] == ["cm-3"],
        named={"post": "po-1"},
    ),
    Task(
        "moderate by id",
        [
            Says("show me the comments on po-1", Do("read_comments", {"post": "po-1"})),
            Says(
                "Hide cm-2. And answer cm-1: Thanks Oda, we'll put the new timetable up tonight.",
                Do("hide_comment", {"comment": "cm-2"}),
                Do(
                    "reply_to_comment",
                    {"comment": "cm-1", "text": "Thanks Oda, we'll put the new timetable up tonight."},
                ),
            ),
        ],
        lambda news: news.comments["cm-2"]["hidden"] and "timetable" in news.replies[0],
        named={"post": "po-1", "comment": "cm-1"},
    ),
    Task(
        "accept a text and tell the writer",
        [
            Says(
                "I love 'A night in the lighthouse'! Accept it for 120, and mail Nadia it runs in the spring issue.",
                Do("list_submissions"),
                Do("accept_submission", {"submission": "su-1", "fee": 120}),
                Do("find_contributor", {"name": "Nadia"}),
                Do(
                    "write_mail",
                    {
                        "to": "nadia@rahman-writes.example",
                        "text": "Dear Nadia, we love A night in the lighthouse and pay 120 EUR. It runs in the spring "
                        "issue. Kit",
                    },
                ),
            )
        ],
        lambda news: news.accepted == {"su-1": 120} and len(news.sent) == 1,
        named={"submission": "su-1", "person": "nadia@rahman-writes.example"},
    ),
    Task(
        "accept a text for the fee that the writer wants",
        [
            Says(
                "Take the tide pools piece from Pete for whatever he's asking",
                Do("list_submissions"),
                Do("accept_submission", {"submission": "su-2", "fee": 85}, due="the writer chose the fee"),
            )
        ],
        lambda news: news.accepted == {"su-2": 85},
        named={"submission": "su-2"},
    ),
    Task(
        "print letters of readers",
        [
            Says(
                "Make a draft 'Letters of the week' from the two letters in the inbox (birds, benches), word for word.",
                Do("read_inbox"),
                Do(
                    "create_draft",
                    {
                        "title": "Letters of the week",
                        "text": "More about birds, please! Edith\n\nThe benches at the quay are a joy. Joe Crane",
                    },
                ),
            ),
            Says("looks good, publish", Do("publish_post", {"post": "po-5"})),
        ],
        lambda news: news.posts["po-5"]["status"] == "published",
    ),
    Task(
        "redirect as the museum wants",
        [
            Says(
                "the museum's website moved, they mailed us the new address. point /museum there",
                Do("read_inbox"),
                Do(
                    "set_redirect",
                    {"path": "/museum", "url": "https://museum-harbour.example/new"},
                    due="the mail has the URL",
                ),
            )
        ],
        lambda news: news.redirects == {"/museum": "https://museum-harbour.example/new"},
        named={"path": "/museum"},
    ),
    Task(
        "add subscribers",
        [
            Says("anything new in the mail?", Do("read_inbox")),
            Says(
                "ok. two new ones for the Weekly from the market stall: hugo.lind@post.example, mo@bakery-mo.example",
                Do("list_segments"),
                Do("add_subscriber", {"email": "hugo.lind@post.example", "segment": "sg-1"}),
                Do("add_subscriber", {"email": "mo@bakery-mo.example", "segment": "sg-1"}),
            ),
        ],
        lambda news: news.subscribers["mo@bakery-mo.example"] == "sg-1" and len(news.subscribers) == 5,
        named={"segment": "sg-1", "person": "hugo.lind@post.example"},
    ),
    Task(
        "correct a post as a reader says",
        [
            Says(
                "Fisher Bill says there's a wrong time in the tide table post. He knows. Fix it as he says.",
                Do("list_posts"),
                Do("read_comments", {"post": "po-2"}),
                Do("update_post", {"post": "po-2", "text": "High water on Sunday is at 14:20."}),
            )
        ],
        lambda news: "14:20" in news.posts["po-2"]["text"],
        named={"post": "po-2"},
    ),
    Task(
        "delete a draft",
        [
            Says("Read me the mail", Do("read_inbox")),
            Says(
                "thx. and delete the draft 'Untitled 3', that was the cat",
                Do("list_posts"),
                Do("delete_post", {"post": "po-3"}),
            ),
        ],
        lambda news: "po-3" not in news.posts and len(news.posts) == 3,
    ),
    Task(
        "remove those who ask for it",
        [
            Says(
                "Take everybody off the newsletter who asked for it by mail.",
                Do("read_inbox"),
                Do(
                    "remove_subscriber",
                    {"email": "tom.ward@post.example"},
                    due="the mail decides that, and has the address",
                ),
            )
        ],
        lambda news: "tom.ward@post.example" not in news.subscribers,
    ),
]
