import fc from 'fast-check';
import type { Json, JsonObject } from '../../event/event.ts';
import { assemblePlan, type PlanForm, writeContract } from './plan-forms.ts';
import type { PlanContract, TrackingPlan } from './tracking-plan.ts';

/** A contract of a plan, with defaults. */
export function planContract(fields: Partial<PlanContract> = {}): PlanContract {
  return {
    name: 'Orders',
    event_type: 'track',
    event_name: 'Order Placed',
    description: 'An order was paid.',
    schema_definition: {},
    enforcement_mode: 'block',
    undeclared_fields: 'warn',
    version: 1,
    ...fields,
  };
}

/** A whole plan in a form. */
export function writePlan(form: PlanForm, plan: TrackingPlan): JsonObject | string {
  return assemblePlan(
    form,
    plan,
    plan.contracts.map((contract) => writeContract(form, contract)),
  );
}

/** Texts that break code, tables and paths which take names for their own; a space parts those of one line. */
const HOSTILE = [
  ...'" \' ` \\ \n \r \r\n \u0000 \u2028 \u2029 \u0085 \u0024{x} */ /* // # """ \'\'\' \\" \\n'.split(' '),
  ..."$ . [] $. a.b a[].b =1+1 +x -x @x '= , ; : 漢字 é e\u0301 🙂 \u202e \ufeff ﬁ K <script> </script>".split(
    ' ',
  ),
  ...'__proto__ constructor prototype toString class def func import None null type self true init main'.split(
    ' ',
  ),
  ...'order-id order_id OrderId orderId 1 9lives Message TrackingPlan analytics properties Error'.split(' '),
  ...['', ' ', ' a ', 'order id', 'x'.repeat(200), '`+alert(1)+`', '*/ process.exit(1) /*'],
  ...['"; process.exit(1); "', '\nimport os; os.abort()\n'],
];

/** A name of an event or a field. */
export const hostileName: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.tuple(fc.constantFrom(...HOSTILE), fc.constantFrom(...HOSTILE)).map(([a, b]) => a + b),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => text.toWellFormed()),
);

const scalar: fc.Arbitrary<Json> = fc.oneof(
  hostileName,
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.constant(1.5),
);

/** A schema of a property, as an author may write it. */
const { value: propertySchema } = fc.letrec<{ value: JsonObject; object: JsonObject }>((tie) => ({
  object: fc
    .tuple(
      fc.uniqueArray(fc.tuple(hostileName, tie('value')), { maxLength: 4, selector: ([name]) => name }),
      fc.option(fc.boolean(), { nil: undefined }),
      fc.boolean(),
    )
    .map(([members, others, isRequired]) => ({
      ...(members.length === 0 ? {} : { type: 'object', properties: Object.fromEntries(members) }),
      ...(isRequired && members.length > 0 ? { required: members.slice(0, 1).map(([name]) => name) } : {}),
      ...(others === undefined ? {} : { additionalProperties: others }),
    })),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record(
      {
        type: fc.constantFrom('string', 'number', 'integer', 'boolean', 'object', 'array', 'null'),
        description: hostileName,
      },
      { requiredKeys: [] },
    ),
    fc.constant({ type: ['string', 'null'] }),
    fc.constant({ type: 'string', format: 'date-time' }),
    fc.record({
      type: fc.constant('string'),
      format: fc.constantFrom('email', 'uuid', 'date', 'uri', 'ipv4'),
    }),
    fc.record({ type: fc.constant('string'), pattern: fc.constantFrom('^a+$', 'a|b', '"', "'", '\\*/') }),
    fc.record({
      enum: fc.uniqueArray(scalar, {
        minLength: 1,
        maxLength: 4,
        selector: (value) => JSON.stringify(value),
      }),
    }),
    fc.record({
      type: fc.constant('number'),
      minimum: fc.integer(),
      exclusiveMaximum: fc.double({ noNaN: true, noDefaultInfinity: true }),
    }),
    tie('object'),
    tie('value').map((items) => ({ type: 'array', items })),
    fc.tuple(tie('value'), tie('value')).map(([a, b]) => ({ anyOf: [a, b] })),
  ),
}));

/** A `schema_definition` in the long form. */
export const schemaDefinition: fc.Arbitrary<JsonObject> = fc
  .tuple(
    fc.uniqueArray(fc.tuple(hostileName, propertySchema), { maxLength: 5, selector: ([name]) => name }),
    fc.option(fc.boolean(), { nil: undefined }),
    fc.option(fc.dictionary(hostileName, hostileName, { maxKeys: 2 }), { nil: undefined }),
  )
  .map(([members, others, labels]) => ({
    ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { 'x-labels': labels }),
    properties: Object.fromEntries(members),
    ...(members.length > 1 ? { required: [members[1]?.[0] ?? ''] } : {}),
    ...(others === undefined ? {} : { additionalProperties: others }),
  }));

/** Contracts of different events. */
export const planContracts: fc.Arbitrary<readonly PlanContract[]> = fc
  .uniqueArray(
    fc.record({
      name: fc.constant('Contract'),
      event_type: fc.constantFrom('track', 'page', 'identify', 'group'),
      event_name: hostileName,
      description: fc.option(hostileName, { nil: null }),
      schema_definition: schemaDefinition,
      enforcement_mode: fc.constantFrom('allow', 'warn', 'block'),
      undeclared_fields: fc.constantFrom('allow', 'warn', 'omit', 'block'),
      version: fc.integer({ min: 1, max: 99 }),
    }),
    { maxLength: 6, selector: ({ event_type, event_name }) => `${event_type} ${event_name}` },
  )
  .map((contracts) => {
    const unnamed = contracts.map((contract) =>
      contract.event_type === 'identify' || contract.event_type === 'group'
        ? { ...contract, event_name: '' }
        : contract,
    );
    const events = unnamed.map(({ event_type, event_name }) => `${event_type} ${event_name}`);
    return unnamed.filter((_, at) => events.indexOf(events[at] ?? '') === at) as readonly PlanContract[];
  });
