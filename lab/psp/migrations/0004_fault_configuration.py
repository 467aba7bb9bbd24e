from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('psp', '0003_currency'),
    ]

    operations = [
        migrations.RenameModel(old_name='Misconduct', new_name='FaultConfiguration'),
    ]
