"""Filler text of a stated number of words, from words that vocabularies hold whole.

Counting tokens exactly needs the model's own tokenizer, which a load generator does not have. With
the space before it, every word of the list is one token in the vocabularies of GPT-2, GPT-4
(``cl100k_base``), GPT-4o (``o200k_base``) and Llama 3, so a number of words is a fair nominal
number of tokens; the server's ``usage`` is the truth. ``docs/workloads.md`` gives the difference.
"""

import random

_TEXT = """
able about above across act add after again age ago air all allow almost alone along already
also always among amount and animal another answer any appear apply area arm around arrive art
ask attack autumn away baby back bad ball bank base bear beat beautiful became because become
bed been before began begin behind believe below best better between big bird black blood blue
board boat body book born both bottom box boy branch bread break bright bring broad brother
brought brown build building built burn business busy but buy call came camp can capital car
care carry case catch caught cause cell center central certain chair chance change character
charge check child children choose church circle city class clean clear climb clock close
clothes cloud coast cold color come common company compare complete condition consider contain
continue control cook cool copy corn corner correct cost cotton could count country course cover
create cross crowd current cut dance danger dark daughter day dead deal dear death decide deep
degree depend desert design develop did different dinner direct direction discover distance
divide doctor does dog dollar done door double doubt down draw dream dress drink drive drop dry
during each early earth east easy eat edge effect egg eight either electric else end energy
engine enjoy enough enter equal escape even evening event ever every exact example except
exercise expect experience explain eye face fact fair fall family famous far farm fast
father favor fear feed feel feet fell felt few field fight figure fill final find fine finger
finish fire first fish fit five flat floor flow flower fly follow food foot for force foreign
forest form forward found four free fresh friend from front fruit full game garden gas gave
general gentle get girl give glad glass gold gone good got govern grand grass gray great green
grew ground group grow guess guide gun had hair half hand happen happy hard has hat have head
hear heard heart heat heavy help her here high hill him his history hit hold hole home hope
horse hot hour house how huge human hundred hunt hurry ice idea imagine inch include increase
indicate industry insect inside instead interest iron island job join joy jump just keep kept
key kill kind king knew know lady lake land language large last late laugh law lay lead learn
least leave led left leg length less let letter level lie life lift light like line liquid list
listen little live locate long look lost lot loud love low machine made main major make man
many map march mark market mass master match material matter may mean measure meat meet melody
member men metal method middle might mile milk million mind mine minute miss mix modern moment
money month moon more morning most mother motion mount mountain mouth move much music must name
nation natural nature near necessary neck need neighbor never new next night nine noise noon
north nose note nothing notice noun now number object observe ocean off offer office often oil
old once one only open opposite order organ original other our out over own oxygen page paint
pair paper parent part party pass past path pattern pay people perhaps period person phrase
pick picture piece place plain plan plane planet plant play please plural poem point poor
position possible post pound power practice prepare present press pretty print problem process
produce product proper property protect prove provide pull push put question quick quiet quite
race radio rail rain raise ran range rather reach read ready real reason receive record red
region remember repeat reply represent require rest result return rich ride right ring rise
river road rock roll room root rope rose round row rule run safe said sail salt same sand saw
say scale school science score sea search season seat second section see seed seem select self
sell send sense sent separate serve set settle seven several shall shape share sharp she sheet
shell shine ship shoe shop shore short should shoulder shout show side sight sign silent silver
similar simple since sing single sister sit six size skill skin sky sleep slip slow small smell
smile snow soft soil soldier solution solve some son song soon sound south space speak special
speech speed spell spend spoke spot spread spring square stand star start state station stay
steam steel step stick still stone stood stop store story straight strange stream street
strong student study subject success such sudden suffix sugar suggest suit summer sun supply
support sure surface surprise swim symbol system table tail take talk tall teach team
teeth tell ten term test than thank that the their them then there these they thick thin thing
think third this those though thought thousand three through throw thus tie time tiny tire
together told tone too took tool top total touch toward town track trade train travel tree
triangle trip trouble truck true try tube turn twenty two type under unit until use usual
valley value vary very view village visit voice vowel wait walk wall want war warm was wash
watch water wave way wear weather week weight well went were west what wheel when where which
while white who whole whose why wide wife wild will wind window wing winter wire wish with
woman women wonder wood word work world would write written wrong wrote yard year yellow yes
yet you young your
"""
WORDS: tuple[str, ...] = tuple(_TEXT.split())

_SENTENCE_WORDS = 12


def filler(rng: random.Random, n_words: int) -> str:
    """Sentences of exactly ``n_words`` words, for example ``River small turn. ...``."""
    words = rng.choices(WORDS, k=max(0, n_words))
    sentences = [
        " ".join(words[start : start + _SENTENCE_WORDS]).capitalize() + "."
        for start in range(0, len(words), _SENTENCE_WORDS)
    ]
    return " ".join(sentences)
