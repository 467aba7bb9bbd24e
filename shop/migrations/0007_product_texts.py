"""Names and descriptions of products in any number of languages, instead of Chinese ones only.

`Product.name` is in the shop's first language from now on, which in a Chinese shop it was only where
no Chinese name was given.

The columns `name_zh` and `description_zh` stay in the database, with their defaults, because the
version before reads and writes them during an update. A later release drops them.
"""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

CHINESE = "zh-hans"


def copy_texts(apps: Any, schema_editor: Any) -> None:
    """Copy what is in Chinese; in a shop whose first language is Chinese, exchange the two."""
    alias = schema_editor.connection.alias
    texts = apps.get_model("shop", "ProductText").objects.using(alias)
    products = apps.get_model("shop", "Product").objects.using(alias)
    for product in products.exclude(name_zh="", description_zh="").iterator():
        chinese = product.name_zh, product.description_zh
        if not settings.LANGUAGE_CODE.startswith("zh"):
            name, description = chinese
            texts.create(
                product=product, language=CHINESE, name=name, description=description
            )
            continue
        first = product.name, product.description
        texts.create(product=product, language="en", name=first[0], description=first[1])
        product.name, product.description = (
            new or old for new, old in zip(chinese, first, strict=True)
        )
        product.save(update_fields=["name", "description"])


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0006_index_of_listed_sales'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProductText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('language', models.CharField(help_text='a code of SHOP_LANGUAGES', max_length=10)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('description', models.TextField(blank=True)),
                ('product', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='texts', to='shop.product')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('product', 'language'), name='shop_product_text_one_per_language')],
            },
        ),
        migrations.RunPython(copy_texts, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='product', name='name_zh'),
                migrations.RemoveField(model_name='product', name='description_zh'),
            ],
        ),
    ]
