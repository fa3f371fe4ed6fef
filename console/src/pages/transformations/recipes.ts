interface EventOfTest {
  [field: string]: unknown;
}

/** A transformation to start from. Its test passes, so it may be used at once. */
export interface Recipe {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly source_code: string;
  readonly test_input: EventOfTest;
  readonly test_output: EventOfTest | EventOfTest[];
}

const track = (event: string, properties: object, more: object = {}) => ({
  type: 'track',
  event,
  user_id: 'u1',
  properties,
  ...more,
});

export const RECIPES: readonly Recipe[] = [
  {
    id: 'blank',
    name: 'As it is',
    description: 'Returns the event unchanged: an empty start.',
    source_code: `function transform(event, context) {
  return event;
}
`,
    test_input: track('Order Placed', { total: 12 }),
    test_output: track('Order Placed', { total: 12 }),
  },
  {
    id: 'hash-emails',
    name: 'Hash e-mail addresses',
    description: 'Replaces e-mail addresses by their SHA-256, as advertising platforms take them.',
    source_code: `const FIELDS = ['email', 'email_address'];

function transform(event) {
  return {
    ...event,
    ...(event.properties && { properties: hashed(event.properties) }),
    ...(event.traits && { traits: hashed(event.traits) }),
  };
}

function hashed(fields) {
  const result = { ...fields };
  for (const name of FIELDS) {
    if (typeof result[name] !== 'string') continue;
    result[name + '_sha256'] = crypto.sha256(result[name].trim().toLowerCase());
    delete result[name];
  }
  return result;
}
`,
    test_input: { type: 'identify', user_id: 'u1', traits: { email: ' Ada@Example.com ', plan: 'pro' } },
    test_output: {
      type: 'identify',
      user_id: 'u1',
      traits: {
        plan: 'pro',
        email_sha256: 'b5fc85e55755f9e0d030a10ab4429b6b2944855f9a0d60077fe832becbc41d72',
      },
    },
  },
  {
    id: 'drop-bots',
    name: 'Drop events of bots',
    description: 'Drops events whose user agent names itself a bot, a crawler or a headless browser.',
    source_code: `const BOT = /bot|crawl|spider|headless|preview|monitor/i;

function transform(event) {
  const agent = event.context?.userAgent ?? event.context?.user_agent ?? '';
  return BOT.test(agent) ? null : event;
}
`,
    test_input: track(
      'Page Opened',
      {},
      { context: { userAgent: 'Mozilla/5.0 (compatible; ExampleBot/1.0)' } },
    ),
    test_output: [],
  },
  {
    id: 'rename-event',
    name: 'Rename events',
    description: 'Gives events the names that the destination knows them by.',
    source_code: `const NAMES = {
  'Order Placed': 'purchase',
  'Product Viewed': 'view_item',
};

function transform(event) {
  return { ...event, event: NAMES[event.event] ?? event.event };
}
`,
    test_input: track('Order Placed', { total: 12 }),
    test_output: track('purchase', { total: 12 }),
  },
  {
    id: 'add-field',
    name: 'Add a field',
    description: 'Computes a field from others: the total of price and quantity.',
    source_code: `function transform(event) {
  const { price, quantity } = event.properties ?? {};
  if (typeof price !== 'number' || typeof quantity !== 'number') return event;
  return { ...event, properties: { ...event.properties, total: price * quantity } };
}
`,
    test_input: track('Product Added', { price: 3, quantity: 4 }),
    test_output: track('Product Added', { price: 3, quantity: 4, total: 12 }),
  },
];
