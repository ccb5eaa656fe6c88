"""The spaCy factory `elmo`, which spaCy finds by its entry point.

It is a separate module, since spaCy imports it with every pipeline: the plugin, and torch with it, is imported only
when a pipeline has the component.
"""

from typing import TYPE_CHECKING, Optional, Union

from spacy.language import Language

if TYPE_CHECKING:
    from elmo_plugin.integrations import ElmoComponent


@Language.factory(
    "elmo",
    assigns=["doc._.elmo", "token._.elmo", "span._.elmo"],
    default_config={
        "bilm": None,
        "layers": "average",
        "batch_size": 64,
        "cuda_device": -1,
        "copy_bilm": False,
    },
)
def make_elmo_component(
    nlp: Language,
    name: str,
    bilm: Optional[str],
    layers: Union[int, str],
    batch_size: int,
    cuda_device: int,
    copy_bilm: bool,
) -> "ElmoComponent":
    """See `elmo_plugin.integrations.ElmoComponent` for the arguments."""
    from elmo_plugin.integrations import ElmoComponent

    return ElmoComponent(name, bilm, layers, batch_size, cuda_device, copy_bilm)
