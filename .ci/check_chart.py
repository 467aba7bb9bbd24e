"""Render the Helm chart as Helm does, and check every object against the schemas of Kubernetes.

`python .ci/check_chart.py [FOLDER]`: exit 1 if something is wrong with docker/kubernetes or FOLDER.
Objects of operators have no schema here; only those in ENGINES may go without.
"""

import sys
from pathlib import Path

import helm_python
import kubernetes_validate
import yaml

KUBERNETES = "1.34.0"
ENGINES = {
    ("postgresql.cnpg.io/v1", "Cluster"),
    ("redis.redis.opstreelabs.in/v1beta2", "RedisReplication"),
    ("redis.redis.opstreelabs.in/v1beta2", "RedisSentinel"),
}
WARNING = 2  # of Helm's linter
OFF = {"enabled": False}
VALUES = [
    {},
    {
        "web": {"autoscaling": OFF},
        "pages": {"autoscaling": OFF},
        "celery": {"autoscaling": OFF},
        "networkPolicy": OFF,
        "pullSecrets": ["registry"],
        "env": {"EMAIL_HOST": "mail.example", "EMAIL_PORT": 587},
        "ingress": {"className": "nginx", "annotations": {"a": "b"}},
    },
]
"""Every branch of the templates."""


def main(folder):
    """Check the chart and the engines' manifests of a folder; return what is wrong."""
    wrong = []
    chart = folder / "shop"
    for values in VALUES:
        report = helm_python.lint(chart, values, strict=True, quiet=True)
        wrong += report["errors"]
        wrong += [
            message["error"] for message in report["messages"] if message["severity"] >= WARNING
        ]
        try:
            with helm_python.Chart.load(chart) as loaded:
                rendered = loaded.render(values, name="shop", namespace="shop")
        except helm_python.HelmError as error:
            wrong.append(str(error))
            continue
        for name, text in rendered.items():
            wrong += check(name, text)
    for path in sorted((folder / "engines").glob("*.yaml")):
        wrong += check(path.name, path.read_text())
    return list(dict.fromkeys(wrong))


def check(name, text):
    """Check the objects of one file; yield what is wrong."""
    if Path(name).name.startswith("_") or name.endswith(".txt"):
        return
    for thing in filter(None, yaml.safe_load_all(text)):
        kind = thing["apiVersion"], thing["kind"]
        try:
            kubernetes_validate.validate(thing, KUBERNETES, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            if kind not in ENGINES:
                yield f"{name}: there is no {kind[1]} in {kind[0]}"
        except kubernetes_validate.ValidationError as error:
            where = ".".join(str(part) for part in error.path)
            yield f"{name}: {kind[1]} {thing['metadata']['name']}: {where}: {error.message}"


if __name__ == "__main__":
    found = main(Path(sys.argv[1] if len(sys.argv) > 1 else "docker/kubernetes"))
    for line in found:
        print(line, file=sys.stderr)
    print(f"The chart and its engines: {len(found) or 'no'} errors.")
    sys.exit(bool(found))
