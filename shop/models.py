"""All models, which Django finds here; import them from their subjects."""

import shop.audit.report
import shop.catalogue.models
import shop.identity
import shop.orders.models
import shop.payments.models
import shop.staff.models  # noqa: F401
