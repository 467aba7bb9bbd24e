"""The SQL of django-oscar's books, and of what its API does not offer to the owner."""

STOCK = """SELECT num_in_stock, num_in_stock - coalesce(num_allocated, 0) FROM partner_stockrecord
WHERE product_id = %s"""
SOLD = """SELECT number, sum(quantity) FROM order_line JOIN order_order o ON o.id = order_id
WHERE product_id = %s GROUP BY number"""
VOUCHER = """WITH o AS (INSERT INTO offer_conditionaloffer (name, slug, max_global_applications,
    condition_id, benefit_id, description, offer_type, exclusive, status, priority, total_discount,
    num_applications, num_orders, redirect_url, date_created)
  VALUES (%s, %s, %s, 1, 1, '', 'Voucher', true, 'Open', 0, 0, 0, 0, '', now()) RETURNING id),
v AS (INSERT INTO voucher_voucher (name, code, usage, start_datetime, end_datetime,
    num_basket_additions, num_orders, total_discount, date_created)
  VALUES (%s, %s, 'Multi-use', now(), now() + interval '1 day', 0, 0, 0, now()) RETURNING id)
INSERT INTO voucher_voucher_offers (voucher_id, conditionaloffer_id) SELECT v.id, o.id FROM v, o
RETURNING id"""
REDEEMED = """SELECT count(*) FROM voucher_voucherapplication a
JOIN voucher_voucher v ON v.id = voucher_id WHERE code = %s"""
BILLS = """SELECT number, 100 * total_incl_tax,
  100 * (shipping_incl_tax + (SELECT sum(line_price_incl_tax) FROM order_line x
    WHERE x.order_id = o.id))
FROM order_order o WHERE id IN (SELECT order_id FROM order_line WHERE product_id = %s)"""
LOOK = """psql "$SHOP_DATABASE_URL" -c "SELECT num_in_stock, num_allocated,
  (SELECT sum(quantity) FROM order_line l WHERE l.product_id = s.product_id) AS ordered
  FROM partner_stockrecord s WHERE product_id = %s\""""
