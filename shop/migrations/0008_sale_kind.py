from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0007_product_texts")]

    operations = [
        migrations.AddField(
            model_name="sale",
            name="kind",
            field=models.CharField(
                choices=[
                    ("first_come", "first come, first served"),
                    ("draw", "draw among those who enter"),
                ],
                db_default="first_come",
                default="first_come",
                max_length=10,
            ),
        ),
    ]
