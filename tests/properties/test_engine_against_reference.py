"""Random clusters and operations: after every step the columns equal a recount and decisions equal the reference's."""

from hypothesis import settings

from tests.properties.enginemachine import EngineAgainstReference
from tests.properties.worlds import examples, phases

TestEngineAgainstReference = EngineAgainstReference.TestCase
TestEngineAgainstReference.settings = settings(
    max_examples=examples(40), stateful_step_count=25, deadline=None, phases=phases()
)
