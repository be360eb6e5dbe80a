"""Does a text cite the view that it must not have seen? Told by phrases.

A text may say how things *would* look from the other viewpoint: that is the task. It may not say that the
other picture shows, confirms or contains something. So a phrase counts only where it states a fact about the
hidden picture, and not where its clause is hedged or asks.
"""

import re

_PICTURE = r"(?:image|view|picture|photo(?:graph)?|imagery|shot|panorama|map|perspective)s?"
_SATELLITE = rf"(?:(?:satellite|aerial|overhead|top-down|bird'?s[- ]eye)[ -]{_PICTURE}|satellite)"
_STREET = (
    rf"(?:(?:street|ground|eye)(?:[- ](?:level|view))?[ -]{_PICTURE}|street[- ]?view|panorama|"
    r"photo(?:graph)?)"
)
_THE = r"(?:the|this|that|its|both|actual)"
_WHICH = r"(?:(?:given|provided|actual|corresponding|matching|hidden|second|other|real) )?"
_ADVERB = r"(?:(?:clearly|also|indeed|itself|in fact|plainly|directly) )?"
_STATES = (
    r"(?:shows?|showed|confirms?|confirmed|reveals?|revealed|depicts?|displays?|verif(?:ies|ied)|contains?|"
    r"proves?|makes? (?:it )?(?:clear|plain))"
)
_CONSULTS = (
    r"(?:looking at|look at|checking|check of|consulting|inspecting|examining|according to|based on|"
    r"judging (?:by|from)|matches|agrees with|in line with|"
    r"(?:confirmed|verified|corroborated|supported|proved|checked) (?:by|with|against|in|from)|"
    r"(?:compar|cross-check|match|verif)(?:ing|ed|y) (?:\w+ ){0,4}?(?:with|to|against|in))"
)
_WITHHELD = (
    r"\bthe (?:hidden|withheld|unseen|complementary|companion|paired) (?:image|view|picture|photo)\b "
    rf"{_ADVERB}{_STATES}\b"
)
_SECOND_PICTURE = re.compile(
    r"\b(?:image|picture|photo) (?:2|two)\b|"
    r"\bthe (?:second|other) (?:image|picture|photo(?:graph)?|panorama)\b",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:would|could|might|may|should|likely|probably|presumably|expect\w*|imagin\w*|which|what|"
    r"how|where|cannot|can't|without|not|no|never|plausibl\w*|suppos\w*|suggest\w*|must|need\w*|"
    r"ask\w*|project\w*)\b",
    re.IGNORECASE,
)
_CONDITIONS = re.compile(r"\b(?:if|whether|unless)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.;:!?\n]+")
_CLAUSE_STARTS = re.compile(r",|\b(?:as|since|because|and|but|while|so)\b", re.IGNORECASE)


def _phrases(hidden: str) -> re.Pattern[str]:
    noun = rf"{_WHICH}{hidden}"
    seen = r"(?:seen|shown|observed|confirmed|verified|found|present|apparent|evident)"
    return re.compile(
        rf"\b(?:{_THE} )?{noun} {_ADVERB}{_STATES}\b"
        rf"|\b(?:as|already|is|are|was|were|can be) {_ADVERB}{seen} (?:in|from|on|by) {_THE} {noun}\b"
        rf"|\b(?:clearly|indeed|also|actually) visible (?:in|from|on) {_THE} {noun}\b"
        rf"|\b{_CONSULTS} {_THE} {noun}\b"
        rf"|\b(?:in|on|from) {_THE} {noun},? (?:\w+ ){{0,3}}?(?:we|I|one|you) (?:can )?(?:clearly )?"
        r"(?:see|observe|notice|find|spot)\b"
        rf"|\b(?:in|on) {_THE} {noun},? (?:there (?:is|are)\b|[^,.;]{{0,40}}? (?:is|are) (?:shown|seen)\b)"
        r"|\b(?:we|I|you) (?:can )?(?:clearly )?(?:see|observe|notice) [^,.;]{0,40}? "
        rf"(?:in|on) {_THE} {noun}\b"
        rf"|{_WITHHELD}",
        re.IGNORECASE,
    )


_BY_TASK = {"g2s": _phrases(_SATELLITE), "s2g": _phrases(_STREET)}


def unseen_evidence(reasoning: str, task: str, shown: int) -> str | None:
    """The first phrase that takes evidence from the view which `task` hides; None where there is none.

    Args:
        reasoning: the text before the answer tag.
        task: g2s (the satellite view is hidden) or s2g (the street view is); others hide nothing.
        shown: pictures that the question shows; with several, a "second picture" is no hidden one.
    """
    pattern = _BY_TASK.get(task)
    if pattern is None:
        return None
    for sentence in _SENTENCE.finditer(reasoning):
        patterns = (pattern, _SECOND_PICTURE) if shown == 1 else (pattern,)
        for found in (found for each in patterns for found in each.finditer(sentence[0])):
            if not _hedged(sentence[0], found):
                return found[0]
    return None


def _hedged(sentence: str, found: re.Match[str]) -> bool:
    """Whether the sentence up to the end of the phrase sets a condition, or its clause supposes or asks."""
    if _CONDITIONS.search(sentence, 0, found.end()):
        return True
    starts = [start.end() for start in _CLAUSE_STARTS.finditer(sentence, 0, found.start())]
    return bool(_HEDGES.search(sentence, starts[-1] if starts else 0, found.end()))
