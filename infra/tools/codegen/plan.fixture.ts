import fc from 'fast-check';
import type { GeneratedContract, GeneratedPlan } from './calls.ts';

/** A plan with everything that the generators know. */
export const SHOP: GeneratedPlan = {
  name: 'Shop',
  contracts: [
    {
      event_type: 'track',
      event_name: 'Order Placed',
      description: 'An order was paid.',
      version: 3,
      schema_definition: {
        properties: {
          'order id': { type: 'string', required: true, description: 'As the shop counts.', minLength: 1 },
          total: { type: 'number', required: true, minimum: 0 },
          currency: { enum: ['EUR', 'USD'] },
          coupon: { type: ['string', 'null'] },
          'placed-at': { type: 'string', format: 'date-time' },
          email: { type: 'string', format: 'email' },
          gift: { type: 'boolean' },
          address: { properties: { city: { type: 'string', required: true }, zip: { type: 'integer' } } },
          lines: {
            type: 'array',
            items: {
              properties: { sku: { type: 'string', required: true }, count: { type: 'integer', minimum: 1 } },
            },
          },
          tags: { type: 'array', items: { type: 'string' } },
          free: { type: 'object' },
          any: {},
        },
      },
    },
    {
      event_type: 'track',
      event_name: '',
      description: null,
      version: 1,
      schema_definition: { additionalProperties: { type: 'string' } },
    },
    { event_type: 'page', event_name: 'Home', description: null, version: 0, schema_definition: {} },
    { event_type: 'screen', event_name: 'Basket', description: null, version: 0, schema_definition: {} },
    { event_type: 'alias', event_name: '', description: null, version: 0, schema_definition: {} },
    {
      event_type: 'identify',
      event_name: '',
      description: null,
      version: 2,
      schema_definition: { properties: { plan: { enum: ['free', 'pro'] } } },
    },
    {
      event_type: 'group',
      event_name: '',
      description: null,
      version: 2,
      schema_definition: { properties: { employees: { type: 'integer', required: true } } },
    },
  ],
};

/** Texts that end a string, comment or name of some language; a space parts those of one line. */
const HOSTILE = [
  ...'" \' ` \\ \n \r \u0000 \u2028 \u2029 \u0085 \u0024{stop()} */ /* // # """ \'\'\' \\" $ . [] , : { }'.split(
    ' ',
  ),
  ...'\u202e \ufeff 漢字 é 🙂 ﬁ %s {0} order-id order_id OrderId orderId 1 9lives Item Other </script>'.split(
    ' ',
  ),
  ...'__proto__ constructor toString class def func import None null type self lambda true init main'.split(
    ' ',
  ),
  ...'Message TrackingPlan analytics properties traits Error MarshalJSON New `+stop()+` \\u0022 \\x22'.split(
    ' ',
  ),
  ...['', ' ', 'order id', 'Order Id', 'x'.repeat(200), '*/ stop(); /*', '"; stop(); "', '\\N{BULLET}'],
  ...['\nimport os; os.abort()\n', '\nfunc init() { panic(1) }\n', '//go:linkname a b', '"""\nstop()\n"""'],
  ...['\\\'\\"\\\\', '# -*- coding: utf-7 -*-'],
];

const hostile = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.tuple(fc.constantFrom(...HOSTILE), fc.constantFrom(...HOSTILE)).map(([a, b]) => a + b),
  fc.string({ unit: 'binary', maxLength: 10 }).map((text) => text.toWellFormed()),
);

const { schema } = fc.letrec<{ schema: object; object: object }>((tie) => ({
  object: fc
    .uniqueArray(fc.tuple(hostile, tie('schema'), fc.boolean()), { maxLength: 5, selector: ([name]) => name })
    .map((fields) => ({
      properties: Object.fromEntries(
        fields.map(([name, of, required]) => [name, required ? { ...of, required } : of]),
      ),
    })),
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record(
      {
        type: fc.constantFrom('string', 'number', 'integer', 'boolean', 'object', 'array', 'null'),
        description: hostile,
      },
      { requiredKeys: [] },
    ),
    fc.record({ description: hostile, pattern: fc.constantFrom('*/', '"""', '\\', '\n'), format: hostile }),
    fc
      .uniqueArray(hostile, { minLength: 1, maxLength: 4 })
      .map((values) => ({ type: 'string', enum: values })),
    fc
      .uniqueArray(
        fc.oneof(
          hostile,
          fc.double({ noNaN: true, noDefaultInfinity: true }),
          fc.boolean(),
          fc.constant(null),
        ),
        {
          minLength: 1,
          maxLength: 4,
        },
      )
      .map((values) => ({ enum: values })),
    fc.constant({ type: ['string', 'null', 'integer'], format: 'date-time' }),
    fc.record({ type: fc.constant('number'), minimum: fc.double({ noNaN: true, noDefaultInfinity: true }) }),
    tie('object'),
    fc.tuple(tie('object'), tie('schema')).map(([object, of]) => ({ ...object, additionalProperties: of })),
    tie('schema').map((items) => ({ type: 'array', items })),
    fc.tuple(tie('schema'), tie('schema')).map(([a, b]) => ({ anyOf: [a, b] })),
  ),
}));

/** Plans whose every text is chosen by an enemy. */
export const hostilePlan: fc.Arbitrary<GeneratedPlan> = fc.record({
  name: hostile,
  contracts: fc
    .uniqueArray(
      fc.record({
        event_type: fc.constantFrom('track', 'page', 'screen', 'identify', 'group'),
        event_name: hostile,
        description: fc.option(hostile, { nil: null }),
        version: fc.integer({ min: 0, max: 9 }),
        schema_definition: schema,
      }),
      { maxLength: 5, selector: ({ event_type, event_name }) => `${event_type} ${event_name}` },
    )
    .map((contracts) => contracts as readonly GeneratedContract[]),
});
