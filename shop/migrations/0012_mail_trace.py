from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0011_chinese_names")]

    operations = [
        migrations.AddField(
            model_name="mail",
            name="trace",
            field=models.CharField(
                blank=True, db_default="", editable=False, help_text="W3C traceparent", max_length=55
            ),
        ),
    ]
