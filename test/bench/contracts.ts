const FOUR = ['Product Viewed', 'Product Added', 'Cart Viewed', 'Order Completed'];

/** Names of events, one for each contract. */
export function benchNames(count: number): readonly string[] {
  return Array.from({ length: count }, (_, n) => FOUR[n] ?? `Event ${n}`);
}

/** Patterns shared by contracts: most patterns describe ids of a few forms. */
const PATTERNS = Array.from({ length: 10 }, (_, n) => `^[0-9a-f]{${n + 10},24}$`);

/** A typical contract for the events of `event.ts`, as a creation request; each has another schema. */
export function benchContract(name: string, n: number) {
  return {
    name,
    event_type: 'track',
    event_name: name,
    schema_definition: {
      properties: {
        product_id: { type: 'string', required: true, pattern: PATTERNS[n % PATTERNS.length] },
        sku: { type: 'string', required: true },
        category: { type: 'string', enum: ['Games', 'Toys', 'Books'] },
        name: { type: 'string' },
        brand: { type: 'string' },
        price: { type: 'number', required: true, minimum: -n },
        quantity: { type: 'integer', required: true, minimum: 1 },
        currency: { type: 'string', enum: ['usd', 'eur'] },
        url: { type: 'string', format: 'uri' },
        position: { type: 'integer' },
      },
    },
    enforcement_mode: 'block',
    undeclared_fields: 'warn',
  } as const;
}
