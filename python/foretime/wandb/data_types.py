"""W&B's name for the classes of media."""
from .media import Audio, Bokeh, Graph, Histogram, Html, Image, Media, Molecule, Object3D, Plotly, Table, Video

__all__ = [
    "Audio",
    "Bokeh",
    "Graph",
    "Histogram",
    "Html",
    "Image",
    "Media",
    "Molecule",
    "Object3D",
    "Plotly",
    "Table",
    "Video",
]
