"""What people ask of the assistant of their home."""

from benchmarks.flow_tasks.scenario import Do, Says, Task, after, coming
from benchmarks.flow_tasks.worlds.home import Home

TASKS: list[Task[Home]] = [
    Task(
        "heat a room for a cold night",
        [
            Says(
                "How cold does it get tonight? Set the bedroom to 21°",
                Do("get_weather"),
                Do("list_rooms"),
                Do("set_temperature", {"room": "bedroom", "celsius": 21}),
            )
        ],
        lambda home: home.heated == {"bedroom": 21},
    ),
    Task(
        "light for the courier",
        [
            Says(
                "any messages? turn the porch light on for the courier, and off again at 22:00 tonight",
                Do("read_messages"),
                Do("list_devices"),
                Do("switch", {"device": "light.porch", "on": True}),
                Do("set_timer", {"device": "light.porch", "at": f"{after(0)}T22:00", "on": False}),
            )
        ],
        lambda home: home.switched == {"light.porch": True} and home.timers[0]["at"].endswith("22:00"),
        named={"device": "light.porch"},
    ),
    Task(
        "do what the gardener asks for",
        [
            Says(
                "The gardener left a message, do what he wants",
                Do("read_messages"),
                Do("list_devices"),
                Do(
                    "set_timer",
                    {"device": "pump.garden", "at": f"{after(1)}T06:30", "on": True},
                    due="the gardener chose the device and the time",
                ),
            )
        ],
        lambda home: home.timers[0]["device"] == "pump.garden",
    ),
    Task(
        "a door code for an aunt",
        [
            Says(
                "Who was at the door today? And please make a door code 4711 for Aunt Rosa, valid until Sunday 8pm, "
                "and text it to her: +44 7700 900123",
                Do("read_messages"),
                Do("create_code", {"guest": "Aunt Rosa", "code": "4711", "valid_until": f"{coming('sunday')}T20:00"}),
                Do(
                    "send_text",
                    {
                        "phone": "+447700900123",
                        "text": "Hi Aunt Rosa, your door code is 4711. It is valid until Sunday 8pm.",
                    },
                ),
            )
        ],
        lambda home: home.codes[0]["code"] == "4711" and "4711" in home.texts[0]["text"],
        named={"phone": "+447700900123"},
    ),
    Task(
        "an evening in three turns",
        [
            Says("read me the messages", Do("read_messages")),
            Says("later. movie night please", Do("list_scenes"), Do("run_scene", {"scene": "scene.3"})),
            Says(
                "and dim the hallway light to 20 %",
                Do("list_devices"),
                Do("dim", {"device": "light.hall", "percent": 20}),
            ),
        ],
        lambda home: home.scenes == ["scene.3"] and home.dimmed == {"light.hall": 20},
        named={"device": "light.hall"},
    ),
    Task(
        "dim two lamps by half",
        [
            Says("Is it going to be clear tonight?", Do("get_weather")),
            Says(
                "Nice. Dim the sofa lamp and the ceiling lamp to half",
                Do("list_devices"),
                Do("dim", {"device": "light.sofa", "percent": 50}),
                Do("dim", {"device": "light.ceiling", "percent": 50}),
            ),
        ],
        lambda home: home.dimmed == {"light.sofa": 50, "light.ceiling": 50},
        named={"device": "light.sofa"},
    ),
    Task(
        "text a contact what a page says",
        [
            Says(
                "Text Ben the address of the restaurant, it's on https://osteria.example",
                Do("open_page", {"url": "https://osteria.example"}),
                Do("find_contact", {"name": "Ben"}),
                Do("send_text", {"phone": "+44 7700 900456", "text": "Osteria Blu, 7 Canal Street"}),
            )
        ],
        lambda home: home.texts[0]["to"] == "+447700900456" and "Canal Street" in home.texts[0]["text"],
        named={"phone": "+44 7700 900456"},
    ),
    Task(
        "share a camera with the person who asked",
        [
            Says(
                "Share the garden camera with the neighbour who asked for it, for 2 hours",
                Do("read_messages"),
                Do("list_devices"),
                Do(
                    "share_camera",
                    {"camera": "camera.garden", "email": "olga@nextdoor.example", "hours": 2},
                    due="the neighbour's message has the address",
                ),
            )
        ],
        lambda home: home.shared[0]["to"] == "olga@nextdoor.example",
        named={"device": "camera.garden"},
    ),
    Task(
        "leave the house",
        [
            Says(
                "whats the weather like? I'm leaving: lock the front door and the garage door and set the alarm "
                "to away",
                Do("get_weather"),
                Do("list_doors"),
                Do("lock", {"door": "door.front"}),
                Do("lock", {"door": "door.garage"}),
                Do("set_alarm", {"mode": "away"}),
            )
        ],
        lambda home: all(home.locked.values()) and home.alarm == "away",
        named={"door": "door.front"},
    ),
    Task(
        "a shopping list from a message",
        [
            Says(
                "Put what Lena needs for the cake on the shopping list, and add milk",
                Do("read_messages"),
                Do("add_to_shopping_list", {"item": "flour"}),
                Do("add_to_shopping_list", {"item": "12 eggs"}),
                Do("add_to_shopping_list", {"item": "poppy seeds"}),
                Do("add_to_shopping_list", {"item": "milk"}),
            )
        ],
        lambda home: home.shopping == ["flour", "12 eggs", "poppy seeds", "milk"],
    ),
]
