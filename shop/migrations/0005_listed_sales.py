from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0004_minor_units")]

    operations = [
        migrations.AddField(
            model_name="sale",
            name="listed",
            field=models.BooleanField(
                db_default=True,
                default=True,
                help_text="shown on the home page; otherwise only those who have its address find it",
            ),
        ),
    ]
