"""Make sounds like short spoken words, as WAV files in a folder for each word: seconds.

    pip install numpy
    python sounds.py [FOLDER] [SOUNDS OF A WORD]

Writes calibration/, train/ and test/, each with the folders down/, left/, right/, stop/ and other/. The sounds are
synthesized: a voice with formants that glide from vowel to vowel, hissing consonants, and noise. A set of recorded
words, such as Speech Commands, has the same folders.
"""

import sys
import wave
from pathlib import Path

import numpy as np

RATE = 8_000
"""Samples of a second."""

LENGTH = 4_096
"""Samples of a sound: about half a second."""

VOWELS = {
    "a": (750, 1250), "o": (500, 900), "u": (330, 850), "e": (520, 1900), "i": (300, 2250), "n": (260, 1100),
}  # fmt: skip
"""Two formants in Hz, by vowel; they differ from one voice to the next."""

WORDS = {"down": "aun", "left": "es", "right": "ai", "stop": "so"}
"""Vowels of each word, and ``s`` for a hiss; the folder ``other`` has words of other vowels, and noise alone."""


def hiss(count: int, random: np.random.Generator) -> np.ndarray:
    """Return noise with the low frequencies taken out, (count,) float64."""
    return np.diff(random.normal(0, 0.35, count + 1))


def voice(vowels: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Return a voiced sound, (count,) float64, that glides through the vowels."""
    steps = np.linspace(0, 1, len(vowels))
    where = np.linspace(0, 1, count)
    size = random.uniform(0.85, 1.15)  # the length of a throat moves all formants
    formants = [np.interp(where, steps, [VOWELS[v][k] * size for v in vowels]) for k in (0, 1)]
    pitch = random.uniform(95, 230) * np.linspace(random.uniform(0.95, 1.15), random.uniform(0.8, 1), count)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = np.zeros(count)
    for harmonic in range(1, int(3_400 / pitch.max()) + 1):
        first, second = (1 / (1 + ((harmonic * pitch - formant) / 90) ** 2) for formant in formants)
        sound += (first + 0.6 * second + 0.02) * np.sin(harmonic * phase)
    return sound


def word(parts: str, random: np.random.Generator) -> np.ndarray:
    """Return a spoken word, (LENGTH,) float64 in -1 .. 1, at some place, loudness and speed, with noise."""
    pieces = []
    for part in parts.replace("s", " s ").split():
        if part == "s":
            pieces.append(hiss(int(RATE * random.uniform(0.08, 0.14)), random))
        else:
            pieces.append(voice(part, int(RATE * random.uniform(0.09, 0.12) * (1 + len(part))), random))
        pieces[-1] = pieces[-1] / np.abs(pieces[-1]).max() * np.hanning(len(pieces[-1])) ** 0.3
    spoken = np.concatenate(pieces) if pieces else np.zeros(1)
    sound = np.zeros(LENGTH)
    begin = random.integers(0, LENGTH - len(spoken) + 1)
    sound[begin : begin + len(spoken)] = spoken * random.uniform(0.2, 0.8)
    sound += random.normal(0, 0.1 * random.uniform(0.1, 1) ** 2, LENGTH)
    return np.clip(sound, -1, 1)


def other(random: np.random.Generator) -> str:
    """Return the parts of a word that is none of ``WORDS``; of one in four nothing, so that noise alone is left."""
    return str(random.choice(["", "oe", "ui", "ae", "ou", "an", "su", "is"]))


def write(path: Path, sound: np.ndarray) -> None:
    """Write a sound in -1 .. 1 as a WAV file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, len(sound), "NONE", "NONE"))
        file.writeframes(np.rint(sound * 32_767).astype("<i2").tobytes())


def main(folder: Path, sounds: int) -> None:
    """Write the three sets: ``sounds`` of each word for training, a quarter for tests, a tenth for calibration."""
    random = np.random.default_rng(0)
    for name, count in (("train", sounds), ("test", sounds // 4), ("calibration", sounds // 10)):
        for label in (*WORDS, "other"):
            (folder / name / label).mkdir(parents=True, exist_ok=True)
            for k in range(count):
                parts = WORDS[label] if label in WORDS else other(random)
                write(folder / name / label / f"{label}{k:03}.wav", word(parts, random))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2]) if len(sys.argv) > 2 else 120)
