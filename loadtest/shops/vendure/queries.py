"""What Vendure is asked: its GraphQL, and the SQL of its books."""

LOGIN = 'mutation { login(username: "superadmin", password: "flash-sale-proof") { __typename } }'
PRODUCT = """mutation($slug: String!) { createProduct(input: { translations: [
  { languageCode: en, name: "Flash sale", slug: $slug, description: "" }] }) { id } }"""
VARIANT = """mutation($product: ID!, $sku: String!, $units: Int!) { createProductVariants(input: [
  { productId: $product, sku: $sku, price: 999, stockOnHand: $units,
    translations: [{ languageCode: en, name: "Flash sale" }] }]) { id } }"""
ADD = "mutation { addItemToOrder(productVariantId: %s, quantity: 1) { __typename } }"
CHECKOUT = """mutation {
  customer: setCustomerForOrder(input: {
    firstName: "A", lastName: "B", emailAddress: "%s@example.com" }) { __typename }
  address: setOrderShippingAddress(input: { streetLine1: "1 Road", countryCode: "GB" }) {
    __typename }
  delivery: setOrderShippingMethod(shippingMethodId: [1]) { __typename }
  last: transitionOrderToState(state: "ArrangingPayment") {
    __typename ... on OrderStateTransitionError { transitionError } }
}"""
PAY = """mutation { addPaymentToOrder(input: { method: "standard-payment", metadata: {} }) {
  __typename ... on Order { code state } ... on ErrorResult { message } } }"""
SOLD = """SELECT o.code, sum(l.quantity) FROM order_line l JOIN "order" o ON o.id = l."orderId"
WHERE l."productVariantId" = %s AND o.state IN ('PaymentAuthorized', 'PaymentSettled')
GROUP BY o.code"""
STOCK = """SELECT "stockOnHand", "stockOnHand" - "stockAllocated" FROM stock_level
WHERE "productVariantId" = %s"""

COUPON = """mutation($code: String!, $uses: Int!) { createPromotion(input: {
  enabled: true, couponCode: $code, usageLimit: $uses, conditions: [],
  actions: [{ code: "order_fixed_discount", arguments: [{ name: "discount", value: "100" }] }],
  translations: [{ languageCode: en, name: $code }] }) { __typename } }"""
APPLY = 'mutation { applyCouponCode(couponCode: "%s") { __typename } }'
REDEEMED = """SELECT count(*) FROM "order" WHERE %s = ANY(string_to_array("couponCodes", ','))
AND state IN ('PaymentAuthorized', 'PaymentSettled')"""
BILLS = """SELECT o.code, p.amount, o."shippingWithTax" + sum(l.quantity
  * round(l."listPrice" * (1 + (l."taxLines"::jsonb->0->>'taxRate')::numeric / 100)))
FROM "order" o JOIN order_line l ON l."orderId" = o.id
JOIN payment p ON p."orderId" = o.id AND p.state = 'Settled'
WHERE l."productVariantId" = %s AND o.state = 'PaymentSettled' GROUP BY o.id, p.id"""
