"""Provider simulators: they refuse requests like the real providers, with the providers' own error bodies."""

from dragoman.testing.simulators.base import Loss, Refusal, Rule, Simulator, SimulatorServer, Violation
from dragoman.testing.simulators.chat import DeepSeekSimulator, KimiSimulator
from dragoman.testing.simulators.claude import ClaudeSimulator
from dragoman.testing.simulators.gemini import GeminiSimulator
from dragoman.testing.simulators.gpt import GptSimulator
from dragoman.testing.simulators.ollama import OllamaSimulator

__all__ = [
    "ClaudeSimulator",
    "DeepSeekSimulator",
    "GeminiSimulator",
    "GptSimulator",
    "KimiSimulator",
    "Loss",
    "OllamaSimulator",
    "Violation",
    "Refusal",
    "Rule",
    "Simulator",
    "SimulatorServer",
]
