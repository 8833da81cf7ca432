# Reports: what a submission shows is read in an instructor's browser. `hostile()` must not run, hostile.example not be
# asked.

# %% name="shows scripts" attack="HTML and scripts in outputs" shows="TRICK done"
from IPython.display import HTML, SVG, Javascript, display

call = "hostile()"
for text in (
    f"<script>{call}</script>",
    f"<img src=x onerror={call}>",
    f"<svg onload={call}>",
    f"<body onload={call}>",
):
    display(HTML(text))
    display(HTML(f"<div><b>{text}</b></div>"))
display(SVG(data=f"<svg xmlns='http://www.w3.org/2000/svg'><script>{call}</script></svg>"))
display(Javascript(call))
display({"application/javascript": call, "text/latex": f"$\\href{{javascript:{call}}}{{x}}$"}, raw=True)
print("TRICK done")

# %% name="shows links that run" attack="HTML and scripts in outputs" shows="TRICK done"
from IPython.display import HTML, Markdown, display

for scheme in (
    "javascript:",
    "java\tscript:",
    " javascript:",
    "javajavascript:script:",
    "JaVaScRiPt:",
    "&#106;avascript:",
):
    display(HTML(f'<a href="{scheme}hostile()">click</a>'))
    display(Markdown(f"[click]({scheme}hostile())"))
display(
    HTML("$\\href{javascript:hostile()}{x}$ <base href=//hostile.example> <form action=//hostile.example><button>x")
)
print("TRICK done")

# %% name="breaks out of a picture" attack="HTML and scripts in outputs" shows="TRICK done"
from IPython.display import display

for mime in ("image/png", "image/jpeg", "image/svg+xml"):
    display({mime: 'AAAA" onerror="hostile()'}, raw=True)
    display({mime: 'AAAA"><script>hostile()</script>'}, raw=True, metadata={mime: {"width": '1" onload="hostile()'}})
print("TRICK done")

# %% name="loads from elsewhere" attack="HTML and scripts in outputs" shows="TRICK done"
from IPython.display import HTML, display

for tag in (
    "img src",
    "iframe src",
    "link rel=stylesheet href",
    "object data",
    "embed src",
    "video src",
    "meta content",
):
    display(HTML(f"<{tag}=http://hostile.example/x></{tag.split()[0]}>"))
display(HTML("<style>@import 'http://hostile.example/x'; body {display: none}</style>"))
display(HTML("<div style='position:fixed;inset:0;background:url(http://hostile.example/x)'>all points</div>"))
print("TRICK done")

# %% name="raises scripts" attack="HTML and scripts in outputs" where="each" twin=false
SCRIPT = '</pre></script><script>hostile()</script><img src=x onerror=hostile()>" onmouseover="hostile()'


def raises(*args, **kwargs):
    raise type(SCRIPT, (Exception,), {})(SCRIPT)


for name in NAMES:
    globals()[name] = raises

# %% name="returns scripts" attack="HTML and scripts in outputs" where="each" twin=false
for name in NAMES:
    globals()[name] = lambda *args, **kwargs: {"<script>hostile()</script>": "\"'><img src=x onerror=hostile()>"}

# %% name="writes scripts in Markdown" attack="HTML and scripts in outputs" where="file"
text = """<script>hostile()</script> <img src=x onerror=hostile()> <svg/onload=hostile()>
![x](http://hostile.example/x) <http://hostile.example> [x]: http://hostile.example "x"
<b title="
<img src=x onerror=hostile()>
">x</b> `</code><script>hostile()</script>` <!-- --!><script>hostile()</script> -->"""
notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
for cell in notebook.cells:
    if cell.id.startswith("written_"):
        cell.source = text

# %% name="writes links that run" attack="HTML and scripts in outputs" where="file"
texts = ["[a](javascript:hostile())", "[a](javajavascript:script:hostile())", "[a](java&#115;cript:hostile())"]
texts += ["[a](javascript&colon;hostile())", "<javascript:hostile()>", "[a][b]\n\n[b]: javascript:hostile()"]
texts += [
    "[a](data:text/html,<script>hostile()</script>)",
    "$\\href{javascript:hostile()}{x}$",
    "[a](vbscript:hostile())",
]
texts += ["$\\newcommand{\\h}[1]{\\href{java#1}{x}}\\h{script:hostile()}$", "[a](&#x6A;avascript:hostile())"]
notebook.cells += [nbformat.v4.new_markdown_cell(text) for text in texts]

# %% name="writes scripts in raw cells" attack="HTML and scripts in outputs" where="file"
raw = nbformat.v4.new_raw_cell("<script>hostile()</script><img src=x onerror=hostile()>")
raw.metadata = nbformat.from_dict({"raw_mimetype": "text/html", "format": "text/html"})
notebook.cells.append(raw)

# %% name="brings scripts in outputs along" attack="HTML and scripts in outputs" where="file"
for cell in notebook.cells:
    if cell.cell_type == "code":
        data = {"text/html": "<script>hostile()</script>", "application/javascript": "hostile()"}
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
notebook.metadata.widgets = {
    "application/vnd.jupyter.widget-state+json": {"state": {"x": "<script>hostile()</script>"}}
}
notebook.metadata.title = "</title><script>hostile()</script>"

# %% name="writes scripts in code" attack="HTML and scripts in outputs" shows="TRICK done"
# </pre></div><script>hostile()</script><img src=x onerror=hostile()>
print(
    "TRICK done",
    "</pre><script>hostile()</script>",
    "\x1b[31m<script>hostile()</script>\x1b]8;;javascript:hostile()\x07x",
)

# %% name="nests a hundred thousand tags" attack="HTML and scripts in outputs" shows="TRICK done"
from IPython.display import HTML, display

print("TRICK done")
display(HTML("<div>" * 100_000))

# %% name="is called like a script" attack="HTML and scripts in outputs" where="zip" raw=true
add("<script>hostile()</script>=cmd|' x'!A0/BOOK.ipynb", file, raw=True)
add("@SUM(1+1)*cmd/BOOK.ipynb", file, raw=True)

# %% name="is refused with a script" attack="HTML and scripts in outputs" where="raw" told="older format" twin=false
text = b'\xef\xbb\xbf{"<script src=//0:81>hostile()</script>":1,"nbformat":3}'

# %% name="is refused with a script in a worksheet" attack="HTML and scripts in outputs" where="raw" told="older format" twin=false
text = b'{"nbformat":3,"worksheets":[{"<img src=x onerror=hostile()>":1}]}'
