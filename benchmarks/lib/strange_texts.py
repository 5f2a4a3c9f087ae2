"""Texts that no English table of questions or intents is about: other languages, and noise.

Written for `reject.py`. Half of them may choose a score (`[::2]`); the others judge it (`[1::2]`).
"""

from __future__ import annotations

import random

OTHER_LANGUAGES = (
    "Wo bleibt meine neue Karte, ich warte schon seit zwei Wochen?",
    "Der Zug nach München hat heute leider eine Stunde Verspätung.",
    "Wie hoch sind die Gebühren für eine Überweisung ins Ausland?",
    "Am Wochenende gehen wir mit den Kindern im See schwimmen.",
    "Pourquoi mon paiement a-t-il été refusé hier soir ?",
    "Il faut ajouter deux œufs et un peu de farine à la pâte.",
    "Où se trouve la gare la plus proche, s'il vous plaît ?",
    "Je voudrais fermer mon compte dès que possible.",
    "¿Cuándo llegará mi tarjeta nueva a casa?",
    "Mañana vamos a la playa si no llueve por la tarde.",
    "No puedo retirar dinero del cajero automático.",
    "El perro del vecino ladra toda la noche.",
    "Perché il mio bonifico non è ancora arrivato?",
    "La pizza migliore si mangia ancora a Napoli.",
    "Vorrei cambiare il codice segreto della mia carta.",
    "Domani mattina il treno parte alle sette e un quarto.",
    "Waar kan ik mijn pincode opnieuw instellen?",
    "De kat slaapt de hele dag op de bank in de zon.",
    "Ik heb gisteren twee keer hetzelfde bedrag betaald.",
    "Het regent hier al de hele week zonder ophouden.",
    "Por que a minha transferência foi cancelada?",
    "O café da manhã é servido até às dez horas.",
    "Preciso de um cartão novo porque perdi o antigo.",
    "Os meninos jogam futebol na rua depois da escola.",
    "Dlaczego moja karta została zablokowana?",
    "Jutro rano pojedziemy nad morze całą rodziną.",
    "Jak mogę zmienić swój adres w aplikacji?",
    "Kot śpi na parapecie od samego rana.",
    "Varför har min betalning inte gått igenom?",
    "Vi ska plocka svamp i skogen på lördag.",
    "Hvornår kommer mit nye kort med posten?",
    "Toget til Aarhus er aflyst på grund af sne.",
    "Miksi korttini ei toimi ulkomailla?",
    "Kesällä aurinko ei laske lainkaan pohjoisessa.",
    "Kartım neden reddedildi, hesabımda para var?",
    "Çocuklar bahçede top oynuyor ve gülüyorlar.",
    "De ce nu pot scoate bani de la bancomat?",
    "Bunica face cea mai bună ciorbă din sat.",
    "Proč mi nepřišla nová karta poštou?",
    "V neděli půjdeme na výlet do hor.",
    "Miért utasították el a fizetésemet tegnap?",
    "A nagymamám minden vasárnap rétest süt.",
    "Почему мой перевод до сих пор не пришёл?",
    "Завтра обещают сильный снег и ветер.",
    "Де я можу поміняти пін-код картки?",
    "Діти граються на подвір'ї після школи.",
    "Γιατί απορρίφθηκε η πληρωμή μου χθες;",
    "Το καλοκαίρι θα πάμε διακοπές στην Κρήτη.",
    "我的新卡什么时候能寄到?",
    "今天下午我们去公园散步吧。",
    "なぜ支払いが拒否されたのですか。",
    "猫は一日中ソファで寝ています。",
    "왜 제 카드가 해외에서 작동하지 않나요?",
    "내일은 가족과 함께 바다에 갈 거예요.",
    "لماذا تم رفض الدفع الخاص بي؟",
    "سنذهب إلى السوق صباح الغد.",
    "למה ההעברה שלי עדיין לא הגיעה?",
    "הילדים משחקים בחצר אחרי הלימודים.",
    "मेरा नया कार्ड कब तक आएगा?",
    "बच्चे बगीचे में खेल रहे हैं।",
    "ทำไมบัตรของฉันถึงใช้ไม่ได้",
    "Tại sao thẻ của tôi bị từ chối?",
    "Kenapa kartu saya tidak bisa dipakai di luar negeri?",
    "Besok pagi kami pergi memancing di danau.",
)
"""Sentences of 25 languages: every second one in most of them is about a bank."""

KEYBOARD = (
    "asdf asdf asdf",
    "qwertyuiop",
    "lkjhgfdsa mnbvcxz",
    "jkl; jkl; jkl;",
    "fghfghfgh fgh",
    "zxcvbnm,./",
    "aaaaaaaaaaaaaaaa",
    "hhhhhhh hhhh hh",
    "!!!!???!!!!",
    "........",
    "1234567890",
    "111 222 333 444",
    "x x x x x x x x",
    "blah blah blah blah",
    "la la la la la la",
    "test test test",
    "foo bar baz qux",
    "lorem ipsum dolor sit amet consectetur",
    "😀😀😀😂😂🔥🔥",
    "<div class='x'></div>",
    "for (int i = 0; i < n; i++) { s += a[i]; }",
    "SELECT id FROM t WHERE x = 3;",
    "http://q7.example/a?b=c&d=e",
    "0x3fa9 0x11c0 0x77de",
    "-- -- -- -- --",
    "poiu poiu lkj lkj mnb",
    "wwww eeee rrrr tttt",
    "dfjkgh sdkfjgh sdkjfhg",
    "k",
    "...?...!",
)
"""What fingers and files give."""


def random_characters(count: int = 34, seed: int = 5) -> list[str]:
    """Draw letters, digits and marks with blanks among them."""
    draw = random.Random(seed)
    some = "abcdefghijklmnopqrstuvwxyz0123456789!?#%&;:.,-_" + " " * 8
    return ["".join(draw.choices(some, k=draw.randint(8, 60))).strip() for _ in range(count)]


def noise() -> list[str]:
    """Keyboard noise and random characters, interleaved."""
    both = zip(KEYBOARD, random_characters(len(KEYBOARD)), strict=True)
    return [text for pair in both for text in pair]
