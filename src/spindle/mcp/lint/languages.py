"""Patterns of poisoned texts in other languages than English: overriding instructions, and concealing from the user."""
# ruff: noqa: RUF001 - letters of other scripts are what this module is about

from collections.abc import Mapping
from typing import Final

_PRIVATE: Final = r"(?:\.ssh|id_rsa|\.env|\.aws|mcp\.json|api[ -]?key|token|password|credential)"
_HERE: Final = r"[^\n]{0,60}?"

_OVERRIDES: Final = (
    # German, Dutch
    (
        r"\b(?:ignorier\w*|missachte\w*|vergiss|vergesse\w*|überschreib\w*|umgeh\w*"
        rf"|befolge nicht){_HERE}\b(?:vorherig|bisherig|früher|vorig|obig|vorangegangen|all|sämtlich|deine|ihre"
        rf"|system|sicherheits)\w*{_HERE}\b(?:anweisung|instruktion|vorgabe|regel|prompt|richtlinie|befehl"
        r"|anleitung)"
    ),
    (
        rf"\b(?:negeer|vergeet|sla){_HERE}\b(?:vorige|eerdere|alle|bovenstaande|jouw|je){_HERE}\b(?:instructies"
        r"|opdrachten|regels|aanwijzingen|richtlijnen)"
    ),
    # French, Spanish, Portuguese, Italian, Romanian, Catalan
    (
        r"\b(?:ignore[zr]?|oublie[zr]?|néglige[zr]?|contourne[zr]?|ne (?:tiens|tenez) (?:pas"
        rf"|plus) compte d){_HERE}\b(?:instructions?|consignes?|règles?|directives?|messages? système)\b"
    ),
    (
        r"\b(?:ignor[aáeé]\w*|olvid[aáeé]\w*|omit[aáeé]\w*|descart[aáeé]\w*|pas[ae] por alto"
        rf"|haz caso omiso){_HERE}\b(?:instrucciones|indicaciones|órdenes|reglas|directrices|normas)\b"
    ),
    (
        rf"\b(?:ignor[aeá]\w*|esqueç\w*|desconsider\w*|despreze){_HERE}\b(?:instruções|orientações|regras|diretrizes"
        r"|ordens|comandos)\b"
    ),
    (
        rf"\b(?:ignor[aie]\w*|dimentic\w*|trascur\w*|non seguire){_HERE}\b(?:istruzioni|regole|direttive|indicazioni"
        r"|comandi)\b"
    ),
    rf"\b(?:ignor\w*|uit\w*){_HERE}\binstrucțiun\w*",
    # Polish, Czech, Russian, Ukrainian
    rf"\b(?:zignoruj|ignoruj|pomiń|zapomnij|zlekceważ){_HERE}(?:instrukcj|poleceń|polecenia|zasad|wytyczn)",
    rf"(?:ignoruj|zapomeň|přehlédni){_HERE}(?:instrukc|pokyn|pravid)",
    (
        rf"(?:игнорируй|проигнорируй|забудь|не (?:обращай|следуй)|отмени|нарушь){_HERE}(?:инструкци|указани|правил"
        r"|команд|промпт|распоряжени)"
    ),
    rf"(?:ігноруй|проігноруй|забудь){_HERE}(?:інструкці|вказівк|правил|команд)",
    # Turkish, Indonesian, Vietnamese
    (
        rf"(?:önceki|tüm|bütün|yukarıdaki|sistem){_HERE}(?:talimat|komut|kural|yönerge)\w*{_HERE}(?:yok say|unut"
        r"|görmezden gel|dikkate alma|boş ver)"
    ),
    rf"\b(?:abaikan|lupakan){_HERE}(?:instruksi|perintah|aturan)",
    rf"\b(?:bỏ qua|quên|phớt lờ){_HERE}(?:hướng dẫn|chỉ dẫn|lệnh|quy tắc|chỉ thị)",
    # Chinese, Japanese, Korean
    r"(?:忽略|无视|忘记|忘掉|不要遵守|不要理会|跳过|無視|忽視|忘記|绕过)[^\n]{0,20}?(?:指令|指示|提示|规则|規則|说明|命令|限制|要求|系统消息)",
    r"(?:以前|前|上記|これまで|すべて|全て|システム)[^\n]{0,15}?(?:指示|命令|プロンプト|ルール|規則|制約)[^\n]{0,10}?(?:無視|忘れ|従わな|破棄)",
    r"(?:이전|앞의|위의|기존|모든|시스템)[^\n]{0,15}?(?:지시|명령|프롬프트|규칙|지침|안내)[^\n]{0,10}?(?:무시|잊|따르지)",
    # Arabic, Hebrew, Persian, Hindi
    r"(?:تجاهل|انس|تجاوز|لا تتبع)[^\n]{0,30}?(?:التعليمات|الأوامر|القواعد|التوجيهات|الإرشادات)",
    r"(?:התעלם|התעלמי|שכח|עקוף)[^\n]{0,30}?(?:הוראות|ההוראות|הנחיות|ההנחיות|כללים|פקודות)",
    r"(?:دستورات|دستورالعمل|قوانین|راهنما)[^\n]{0,40}?(?:نادیده|فراموش|بی‌?توجه)",
    (
        r"(?:पिछले|पहले|सभी|ऊपर|सिस्टम)[^\n]{0,30}?(?:निर्देश|आदेश|नियम|हिदायत)[^\n]{0,30}?(?:अनदेखा|नज़रअंदाज़"
        r"|नजरअंदाज|भूल|उपेक्षा)"
    ),
)
"""Texts that override the instructions of the model."""

_CONCEALMENTS: Final = (
    (
        rf"\b(?:nicht|niemals|nie|ohne|kein(?:e|en)?){_HERE}\b(?:benutzer|nutzer|anwender|user)\w*\b|\b(?:benutzer"
        rf"|nutzer|anwender|user)\w*\b{_HERE}\b(?:nichts?|niemals|nie|kein\w*)\b[^\n]{{0,40}}?\b(?:sag|erwähn|verrat"
        r"|mitteil|erfahr|erzähl|inform|zeig|wiss|merk)"
    ),
    (
        rf"\b(?:heimlich|unbemerkt|im geheimen|verdeckt)\b{_HERE}\b(?:send|les|übermittel|weiterleit|kopier|füg|ruf"
        r"|schick|lad)\w*"
    ),
    (
        rf"\b(?:vertel|zeg|meld){_HERE}\b(?:gebruiker){_HERE}\b(?:niet|niets)|\b(?:niet|nooit"
        rf"|zonder){_HERE}\b(?:aan de gebruiker|de gebruiker te)"
    ),
    (
        rf"\b(?:ne|n')\s?\w+{_HERE}\b(?:pas|jamais|rien){_HERE}\b(?:utilisateurs?|utilisatrices?|usagers?)\b"
        rf"|\b(?:sans|à l'insu de){_HERE}\b(?:utilisateur|usager)\b|\bn'en parle[zr]? (?:pas|jamais)"
    ),
    (
        rf"\b(?:no|nunca|jamás|sin)\b {_HERE}\b(?:dig|menci|inform|revel|avis|cuent|muestr|notifi|decir|coment"
        rf"|expliq)\w*{_HERE}\b(?:usuari[oa]s?|cliente)\b|\ben secreto\b{_HERE}\b(?:env|le|copi|reenv)\w+"
    ),
    (
        rf"\b(?:não|nunca|jamais|sem)\b {_HERE}\b(?:diga|conte|mencion|inform|revel|avis|mostr|notifi|comente|dizer"
        rf"|expli)\w*{_HERE}\b(?:usuári[oa]s?|utilizador\w*|cliente)\b"
    ),
    (
        rf"\b(?:non|mai|senza)\b {_HERE}\b(?:dire|dir|menzion|inform|rivel|avvis|mostr|comunic|notific"
        rf"|parl)\w*{_HERE}\b(?:utent[ei]|cliente)\b"
    ),
    rf"\b(?:nie|bez){_HERE}\b(?:mów|wspomin|inform|ujawn|powiad|pokaz|zdradz){_HERE}użytkownik",
    (
        rf"(?:не|никогда|без){_HERE}(?:говори|сообща|упомина|раскрыва|рассказыва|показыва|информир|уведомл|ведома"
        rf"|извеща|спрашива){_HERE}(?:пользовател|человек|юзер)|(?:тайно|незаметно|скрытно|втайне){_HERE}(?:отправ"
        rf"|прочита|передай|перешли|скопируй|вызови|загрузи)|пользовател\w*{_HERE}(?:не должен|не узна|не говори"
        r"|не сообща)"
    ),
    rf"(?:не|ніколи|без){_HERE}(?:кажи|повідомл|згаду|розкрива|розповіда|показу|відома){_HERE}користувач",
    (
        rf"kullanıcı\w*{_HERE}(?:söyleme|bahsetme|bildirme|haber verme|gösterme|fark etme|bilmemeli)"
        rf"|gizlice{_HERE}(?:gönder|oku|ekle|ilet)"
    ),
    rf"\b(?:jangan|tanpa){_HERE}(?:beri ?tahu|sebut|sampaikan|ungkap|memberi ?tahu){_HERE}(?:pengguna|user)",
    rf"\b(?:đừng|không|không được){_HERE}(?:nói|cho|tiết lộ|thông báo|đề cập){_HERE}(?:người dùng)",
    (
        r"(?:不要|请勿|勿|别|切勿|不得|不能|无需|不必|不用|不可)[^\n]{0,12}?(?:告诉|告知|提及|通知|透露|让|向|提醒|显示给|说明)[^\n]{0,12}?(?:用户|使用者|用戶"
        r"|任何人|人类)|(?:悄悄|秘密|偷偷|暗中|静默)[^\n]{0,12}?(?:发送|读取|上传|转发|复制|调用|執行|传|发|附加)|(?:用户|使用者|用戶)[^\n]{0,8}?(?:不知情|不知道"
        r"|察觉不到|不会发现)"
    ),
    (
        r"(?:ユーザー?|利用者|使用者)[^\n]{0,20}?(?:伝えない|知らせない|言わない|言及しない|教えない|見せない|話さない|通知しない|気づかれ|報告しない|伝えず|知らせず|知られ)"
        r"|(?:密かに|こっそり|秘密裏に|黙って)[^\n]{0,20}?(?:送信|読み|送|転送|呼び|コピー|追加)"
    ),
    (
        r"(?:사용자|유저|이용자)[^\n]{0,15}?(?:알리지|말하지|언급하지|보여주지|공개하지|모르게|알려주지|고지하지|밝히지)|(?:몰래|비밀리에|은밀히)[^\n]{0,15}?(?:전송|읽"
        r"|보내|복사|호출|추가)"
    ),
    (
        r"(?:لا|دون|بدون)[^\n]{0,20}?(?:تخبر|تذكر|تعلم|تكشف|إخبار|علم|إعلام|تظهر|تبلغ|ذكر)[^\n]{0,20}?(?:المستخدم"
        r"|أحد)|(?:سرا|سرًا|خفية)[^\n]{0,20}?(?:أرسل|اقرأ|انسخ)"
    ),
    (
        r"(?:אל|בלי|מבלי|לא)[^\n]{0,20}?(?:תספר|תגלה|תציין|לספר|לגלות|להודיע|תודיע|לציין|ליידע"
        r"|תיידע)[^\n]{0,20}?(?:למשתמש|המשתמש|לאיש|את המשתמש)"
    ),
    r"(?:به )?کاربر[^\n]{0,20}?(?:نگو|نگویید|اطلاع نده|نشان نده|چیزی نگو)",
    (
        r"(?:उपयोगकर्ता|यूज़र|यूजर|प्रयोक्ता)[^\n]{0,25}?(?:मत बता|न बता|नहीं बता|ना बता|सूचित न|सूचित मत"
        r"|को बताए बिना|पता न चले)|(?:चुपके से|चुपचाप|गुप्त रूप से)[^\n]{0,30}?(?:भेज|पढ़|जोड़)"
    ),
)
"""Texts that tell the model to conceal something."""

_ORDERS: Final = (
    (
        r"(?:在|先于)?(?:使用|调用|執行|执行|运行)(?:任何|所有|每个|其他|其它)[^\n]{0,8}?(?:工具|函数)[^\n]{0,12}?(?:之前|前|时)[^\n]{0,20}?(?:必须"
        r"|先|都|请|要)"
    ),
    r"(?:他の|すべての|あらゆる)[^\n]{0,8}?ツール[^\n]{0,15}?(?:前に|する前)[^\n]{0,30}?(?:必ず|まず|このツール)",
    (
        rf"\b(?:bevor|ehe|vor){_HERE}\b(?:andere[sn]?|jedem|jedes|alle) (?:werkzeuge?s?|tools?"
        rf"|funktion\w*)\b{_HERE}\b(?:muss|musst|immer|zuerst|rufe)\b"
    ),
    (
        rf"\b(?:avant|antes|prima){_HERE}\b(?:autre|otra|outra|altro|cualquier|qualquer|tout"
        rf"|qualsiasi)\b{_HERE}\b(?:outil|herramienta|ferramenta|strumento|función|fonction)\b"
    ),
    rf"(?:перед|прежде){_HERE}(?:любого|каждого|другого|других|любым|каждым) (?:другого |другим )?инструмент",
)
"""Texts that give orders about other tools."""

_READS: Final = (
    # An imperative in any language beside a file or a secret that nothing legitimate asks a model to read.
    (
        r"\b(?:lies|lese|öffne|lade|füge|schicke|sende|sende|lis|lisez|lire|ouvre|envoie[zr]?|envoyer|lee|lea|leer"
        r"|abre|abra|envía|envíe|enviar|leia|envie|leggi|apri|invia|przeczytaj|wyślij|lees|stuur|прочитай|прочти"
        rf"|открой|отправь|вышли|передай|oku|gönder|baca|kirim|đọc|gửi)\b{_HERE}{_PRIVATE}"
    ),
    (
        r"(?:读取|讀取|读出|打开|查看|发送|上传|附上|读|読み取|読み込|読んで|送信|開い|읽|전송|보내|열어|اقرأ|أرسل|افتح|קרא|שלח|بخوان|ارسال|पढ़"
        rf"|भेज)[^\n]{{0,40}}?{_PRIVATE}|{_PRIVATE}[^\n]{{0,40}}?(?:读取|讀取|内容|發送|发送|上传|作为|附|読み|送信|渡|内容を|읽|전송|내용|보내|पढ़"
        r"|भेज|oku|gönder)"
    ),
)
"""Texts that tell the model to read a secret and pass it on."""

OTHER_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "SP101": _OVERRIDES,
    "SP102": _CONCEALMENTS,
    "SP104": _ORDERS,
    "SP105": _READS,
}
"""The patterns of each rule."""
