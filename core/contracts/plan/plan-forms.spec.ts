import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../event/event.ts';
import { checkSchema } from '../evaluation/compile-schema.ts';
import { canonicalJson } from '../json-values.ts';
import { planContract, planContracts, writePlan } from './plan.fixture.ts';
import { PLAN_FORMS, readPlan } from './plan-forms.ts';
import { normalSchema } from './schema-walk.ts';
import { trackingPlanOf } from './tracking-plan.ts';

const RUNS = 50;

/**
 * V8 in Node 24 to 26.10 reads a key with an escape as one with a backslash that stood at the same place of an earlier
 * text: after `{"a":1,"\\":2}`, `{"a":1,"\"":2}` has the key `\`. So names with a backslash are in a test of their own,
 * where none has a neighbour.
 */
const isReadRight = (schema: JsonObject) => !JSON.stringify(schema).includes('\\\\');
/** A body of JSON with this name is refused. */
const isTaken = (schema: JsonObject) => !JSON.stringify(schema).includes('"__proto__"');

const order = planContract({
  schema_definition: {
    'x-labels': { team: 'checkout', tier: '1' },
    properties: {
      order_id: { type: 'string', required: true, description: 'Of the shop.' },
      total: { type: 'number', minimum: 0 },
      currency: { enum: ['EUR', 'USD'], type: 'string' },
      placed_at: { type: 'string', format: 'date-time' },
      address: { type: 'object', properties: { city: { type: 'string', required: true } } },
      lines: {
        type: 'array',
        items: { type: 'object', properties: { sku: { type: 'string', required: true } } },
      },
      'a.b': { type: 'boolean' },
    },
  },
});
const plan = trackingPlanOf('Shop', 7, [
  planContract({ event_type: 'identify', event_name: '', description: null }),
  order,
]);

describe('a plan', () => {
  it('in its own format is read exactly as written', () => {
    const document = writePlan('tributary', plan) as JsonObject;
    const { contracts, notes, faults } = readPlan(JSON.parse(JSON.stringify(document)));
    expect({ notes, faults }).toEqual({ notes: [], faults: [] });
    expect(contracts).toEqual(
      plan.contracts.map((contract, at) => ({ ...contract, location: `/contracts/${at}`, isExact: true })),
    );
  });

  it('with unknown members or invalid values is refused with their path', () => {
    const bad = { ...order, enforcement_mode: 'maybe', schema_definition: [], colour: 'red' };
    expect(readPlan({ contracts: [bad, 5], sources: [] } as unknown as JsonObject)).toMatchObject({
      contracts: [],
      faults: [
        { path: '/sources', message: 'is not a known field' },
        { path: '/contracts/0/colour', message: 'is not a known field' },
        { path: '/contracts/0/schema_definition', message: 'must be an object' },
        { path: '/contracts/0/enforcement_mode', message: 'must be one of "allow", "warn", "block"' },
        { path: '/contracts/1', message: 'must be an object' },
      ],
    });
  });

  it('in an unknown format is refused', () => {
    expect(readPlan({ name: 'x' }).faults).toEqual([
      {
        path: '',
        message: 'must be a plan of Tributary (`contracts`), Segment (`rules`) or RudderStack (`events`)',
      },
    ]);
  });

  it.each(PLAN_FORMS)(
    'in the format %s has the same verdict on every event after it was read back',
    (form) => {
      fc.assert(
        fc.property(planContracts, (contracts) => {
          const valid = contracts.filter(
            ({ schema_definition }) =>
              checkSchema(schema_definition).length === 0 &&
              isReadRight(schema_definition) &&
              isTaken(schema_definition),
          );
          const written = writePlan(form, trackingPlanOf('Plan', 1, valid));
          const read = readPlan(
            typeof written === 'string' ? written : (JSON.parse(JSON.stringify(written)) as JsonObject),
          );
          expect(read.faults).toEqual([]);
          const said = (schema: JsonObject) => {
            const { 'x-labels': labels, ...rest } = schema;
            const isLabelled = form !== 'rudderstack' && form !== 'rudderstack-csv';
            return canonicalJson(normalSchema(isLabelled && labels !== undefined ? schema : rest));
          };
          const seen = (of: typeof read.contracts | typeof valid) =>
            of
              .map(({ event_type, event_name, description, schema_definition }) =>
                JSON.stringify([event_type, event_name, description || null, said(schema_definition)]),
              )
              .sort();
          expect(seen(read.contracts)).toEqual(seen(valid));
        }),
        { numRuns: RUNS },
      );
    },
  );

  it.each(PLAN_FORMS)('in the format %s keeps names with a backslash', (form) => {
    for (const name of ['\\', '\\"', '\\n', 'a\\', '\\.']) {
      const schema_definition = { properties: { [name]: { type: 'object', properties: { [name]: {} } } } };
      const written = writePlan(form, trackingPlanOf('Plan', 1, [planContract({ schema_definition })]));
      const read = readPlan(written);
      expect(read.faults).toEqual([]);
      expect(read.contracts.map((one) => normalSchema(one.schema_definition))).toEqual([
        normalSchema(schema_definition),
      ]);
    }
  });
});

describe('a plan of Segment', () => {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: {
      context: {},
      traits: {},
      properties: {
        type: 'object',
        properties: {
          'order id': { id: '/properties/order%20id', type: ['string'], description: 'Of the shop.' },
        },
        required: ['order id'],
      },
    },
    labels: {},
  };

  it('is read in the form of the Public API and typewriter', () => {
    const rules = [
      { key: 'Order Placed', type: 'TRACK', version: 2, jsonSchema: schema, labels: { team: 'checkout' } },
      { key: 'Order Placed', type: 'TRACK', version: 1, jsonSchema: {} },
      { key: 'Home', type: 'SCREEN', jsonSchema: {} },
      { type: 'COMMON', jsonSchema: { required: ['context'] } },
      {
        key: 'flat',
        type: 'TRACK',
        jsonSchema: { description: 'As it is kept.', properties: { sku: { type: 'string' } } },
      },
    ];
    for (const document of [{ rules }, { data: { rules } }]) {
      const location = 'data' in document ? '/data/rules' : '/rules';
      expect(readPlan(document)).toEqual({
        faults: [],
        notes: [
          { path: `${location}/1`, message: `is left out: ${location}/0 is a newer version of the event` },
          { path: `${location}/3`, message: 'is left out: a contract is for one type of event' },
        ],
        contracts: [
          {
            location: `${location}/0`,
            event_type: 'track',
            event_name: 'Order Placed',
            description: null,
            schema_definition: {
              type: 'object',
              properties: { 'order id': { type: ['string'], description: 'Of the shop.' } },
              required: ['order id'],
              'x-labels': { team: 'checkout' },
            },
          },
          {
            location: `${location}/2`,
            event_type: 'screen',
            event_name: 'Home',
            description: null,
            schema_definition: {},
          },
          {
            location: `${location}/4`,
            event_type: 'track',
            event_name: 'flat',
            description: 'As it is kept.',
            schema_definition: { properties: { sku: { type: 'string' } } },
          },
        ],
      });
    }
  });

  it('states what it leaves out', () => {
    const asks = {
      ...schema,
      properties: { ...schema.properties, userId: { type: 'string', minLength: 3 } },
      javaType: 'X',
    };
    expect(readPlan({ rules: [{ key: 'E', type: 'TRACK', jsonSchema: asks }] }).notes).toEqual([
      { path: '/rules/0/jsonSchema', message: '`javaType`, which is no keyword of JSON Schema is left out' },
      { path: '/rules/0/jsonSchema', message: 'the schema of `userId` is left out' },
    ]);
  });

  it('is read in the form of the Config API', () => {
    const rules = {
      events: [{ name: 'Order Placed', description: 'Paid.', rules: schema, version: 1 }],
      identify_traits: [],
    };
    expect(readPlan({ display_name: 'Shop', rules }).contracts).toMatchObject([
      { location: '/rules/events/0', event_type: 'track', event_name: 'Order Placed', description: 'Paid.' },
    ]);
  });
});

describe('the rules beside the events of a plan', () => {
  const of = (properties: object) => ({
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: { context: {}, traits: {}, properties: {}, ...properties },
  });
  const email = { type: 'object', properties: { email: { type: 'string' } } };

  it('were dropped without a word', () => {
    const rules = {
      global: of({ context: { required: ['library'] } }),
      events: [{ name: 'Order Placed', rules: of({}), version: 1 }],
      identify: of({ traits: email }),
      group: of({ traits: email }),
      identify_traits: [],
      aliases: { x: 1 },
    };
    expect(readPlan({ display_name: 'Shop', rules })).toMatchObject({
      faults: [],
      notes: [
        { path: '/rules/aliases', message: 'is left out: it is no list of rules' },
        { path: '/rules/global', message: 'is left out: a contract is for one type of event' },
      ],
      contracts: [
        { location: '/rules/events/0', event_type: 'track', event_name: 'Order Placed' },
        { location: '/rules/identify', event_type: 'identify', event_name: '', schema_definition: email },
        { location: '/rules/group', event_type: 'group', event_name: '', schema_definition: email },
      ],
    });
  });

  it('that say nothing make no contract and no note', () => {
    const rules = { global: of({}), identify: of({}), group: of({}), events: [{ name: 'A', rules: {} }] };
    expect(readPlan({ rules })).toMatchObject({ faults: [], notes: [], contracts: [{ event_name: 'A' }] });
  });
});

describe('a plan of RudderStack', () => {
  it('is read in the form of the catalog API, with traits that an SDK puts into the context', () => {
    const traits = {
      type: 'object',
      properties: { plan: { $ref: '#/$defs/Plan' } },
      unevaluatedProperties: false,
    };
    const events = [
      {
        name: '',
        description: '',
        eventType: 'identify',
        identitySection: 'context.traits',
        rules: {
          $schema: 'https://json-schema.org/draft/2019-09/schema',
          type: 'object',
          properties: { context: { properties: { traits } } },
          $defs: { Plan: { type: 'string', enum: ['pro'] } },
        },
      },
    ];
    expect(readPlan({ name: 'Shop', events })).toEqual({
      faults: [],
      notes: [],
      contracts: [
        {
          location: '/events/0',
          event_type: 'identify',
          event_name: '',
          description: null,
          schema_definition: { ...traits, $defs: { Plan: { type: 'string', enum: ['pro'] } } },
        },
      ],
    });
  });

  it('is read in the form of rudder-typer', () => {
    const rules = { type: 'object', properties: { traits: { type: 'object', properties: { name: {} } } } };
    const document = { name: 'Shop', rules: { events: [{ name: '', eventType: 'group', rules }] } };
    expect(readPlan(document).contracts).toMatchObject([
      { event_type: 'group', event_name: '', schema_definition: { properties: { name: {} } } },
    ]);
  });

  it('with one rule of an unknown event type could not be used: the rule is left out', () => {
    for (const eventType of ['any', 'delete', 'constructor']) {
      const events = [
        { name: 'x', eventType, rules: {} },
        { name: 'y', eventType: 'track', rules: {} },
      ];
      const message = `is left out: its type "${eventType}" is none of track, identify, page, screen, group, alias`;
      expect(readPlan({ events })).toMatchObject({
        faults: [],
        notes: [{ path: '/events/0', message }],
        contracts: [{ event_name: 'y' }],
      });
    }
  });

  it('loses what one property cannot say, with a note, and no more', () => {
    const properties = {
      anything: { type: 'any', description: 'What it is.' },
      at: { type: 'date-time' },
      count: { type: ['integer', 'null'] },
      ahead: { type: 'string', pattern: '(?=x)y' },
      colour: { type: 'string', format: 'color' },
      choice: { enum: 'a|b' },
      lines: {
        type: 'array',
        items: { type: 'object', properties: { sku: { type: 'sku' }, 'a.b': { $ref: '#/no' } } },
      },
    };
    const rules = {
      type: 'object',
      properties: { properties: { type: 'object', properties, required: ['at'] } },
    };
    const { contracts, notes, faults } = readPlan({ events: [{ name: 'x', eventType: 'track', rules }] });
    expect(faults).toEqual([]);
    expect(contracts[0]?.schema_definition).toEqual({
      type: 'object',
      properties: {
        anything: { description: 'What it is.' },
        at: { type: 'string', format: 'date-time' },
        count: { type: ['integer', 'null'] },
        ahead: { type: 'string' },
        colour: { type: 'string' },
        choice: {},
        lines: { type: 'array', items: { type: 'object', properties: { sku: {}, 'a.b': {} } } },
      },
      required: ['at'],
    });
    expect(checkSchema(contracts[0]?.schema_definition ?? {})).toEqual([]);
    expect(notes.map(({ message }) => message.split(' is left out: it must')[0]).sort()).toEqual([
      '`$ref` of `lines.a.b` is left out: it points at nothing that is a schema',
      '`enum` of `choice`',
      '`format` of `colour`',
      '`pattern` of `ahead`',
      '`type` of `anything`',
      '`type` of `lines.sku`',
    ]);
    const csv =
      'Event Name,Property Name,Data Type,Permitted Values\nA,p,any,\nA,q,sku,\nA,r,"date-time, null",(?=x)y\nA,s,date-time,';
    expect(readPlan(csv)).toMatchObject({
      faults: [],
      notes: [
        { path: 'line 3', message: 'the data type "sku" is left out: it is not known' },
        {
          path: 'line 2',
          message: expect.stringMatching('`pattern` of `r` is left out: it must run in linear time'),
        },
      ],
      contracts: [
        {
          schema_definition: {
            properties: {
              p: {},
              q: {},
              r: { type: ['string', 'null'] },
              s: { type: 'string', format: 'date-time' },
            },
          },
        },
      ],
    });
  });
});

describe('a table', () => {
  it('has a row for each event and property, by the headers of each product', () => {
    const [head, ...rows] = String(writePlan('segment-csv', plan)).trimEnd().split('\r\n');
    expect(head).toBe(
      'Event Type,Event Name,Event Description,Labels,Property Name,Property Description,Status,Data Type,Permitted Values,Additional Properties,JSON Schema',
    );
    expect(rows).toEqual([
      'track,Order Placed,An order was paid.,"team:checkout, tier:1",,,,,,,',
      'track,Order Placed,,,order_id,Of the shop.,required,string,,,',
      'track,Order Placed,,,total,,optional,,,,"{""type"":""number"",""minimum"":0}"',
      'track,Order Placed,,,currency,,optional,string,EUR|USD,,',
      'track,Order Placed,,,placed_at,,optional,date time,,,',
      'track,Order Placed,,,address,,optional,object,,,',
      'track,Order Placed,,,address.city,,required,string,,,',
      'track,Order Placed,,,lines,,optional,array,,,',
      'track,Order Placed,,,lines.$,,optional,object,,,',
      'track,Order Placed,,,lines.$.sku,,required,string,,,',
      'track,Order Placed,,,a\\.b,,optional,boolean,,,',
      'identify,,,,,,,,,,',
    ]);
    expect(String(writePlan('rudderstack-csv', plan)).split('\r\n')[0]).toContain("Req'd,Property Type");
  });

  it('is read with either header in any order, also with rows without the event', () => {
    const text = [
      "Property Name,Property Type,Req'd,Rule Type,Event Name,Owner",
      'sku,String,TRUE,Track,Seen,me',
      'tags[].name,"String, Null",,,,me',
      'plan,free|pro,yes,identify,,me',
    ].join('\n');
    expect(readPlan(text)).toEqual({
      faults: [],
      notes: [
        { path: 'line 1', message: 'the column `Owner` is left out' },
        { path: 'line 4', message: 'the data type "free|pro" is left out: it is not known' },
      ],
      contracts: [
        expect.objectContaining({
          event_type: 'track',
          event_name: 'Seen',
          schema_definition: {
            properties: {
              sku: { type: 'string' },
              tags: {
                type: 'array',
                items: { type: 'object', properties: { name: { type: ['string', 'null'] } } },
              },
            },
            required: ['sku'],
          },
        }),
        expect.objectContaining({ event_type: 'identify', event_name: '' }),
      ],
    });
  });

  it('is refused with the line of the fault', () => {
    const head = 'Event Type,Event Name,Property Name,Data Type,JSON Schema\n';
    const faultsOf = (text: string) => readPlan(text).faults;
    const words = 'constructor,Event Type,Event Name,Property Name,Data Type\n';
    const read = readPlan(`${words},constructor,A,p,\n,,,q,string\n,,B,p,toString`);
    expect(read.faults).toEqual([]);
    expect(read.notes.slice(1)).toEqual([
      {
        path: 'line 2',
        message:
          'is left out: its event type "constructor" is none of track, identify, page, screen, group, alias',
      },
      { path: 'line 4', message: 'the data type "toString" is left out: it is not known' },
    ]);
    expect(read.contracts).toMatchObject([{ event_name: 'B' }]);
    expect(faultsOf('a,b\n')).toEqual([
      { path: 'line 1', message: 'must name the columns `Event Name` and `Property Name`' },
    ]);
    expect(faultsOf(`${head}"open`)).toMatchObject([{ message: expect.stringContaining('is not CSV') }]);
    expect(
      faultsOf(`${head}merge,X,,,\ntrack,A,p,,{\ntrack,A,p,,\ntrack,B,q,string,\ntrack,B,q.r,,`),
    ).toEqual([
      { path: 'line 4', message: 'describes the same as line 3' },
      { path: 'line 3', message: 'has a JSON Schema that is not JSON' },
      { path: 'line 5', message: 'has properties of its own, so its data type must be object' },
    ]);
  });

  it.each([
    ['__proto__,,', 'holds the key __proto__'],
    ['a.__proto__.b,,', 'holds the key __proto__'],
    ['a,__proto__:x,', 'holds the key __proto__'],
    ['a,,"{""properties"":{""__proto__"":{}}}"', 'has a JSON Schema that holds the key __proto__'],
    ['a,,"{""enum"":[1e400]}"', 'has a JSON Schema that holds a number that is too large'],
    ['a,,"{""const"":""\\ud800""}"', 'has a JSON Schema that holds half of a surrogate pair'],
  ])('stored %s, so that its own export could not be imported', (cells, message) => {
    const { faults } = readPlan(`Event Name,Property Name,Labels,JSON Schema\nA,${cells}\n`);
    expect(faults).toEqual([{ path: 'line 2', message }]);
  });

  it('has no cell that a spreadsheet evaluates as a formula', () => {
    const text = String(
      writePlan(
        'segment-csv',
        trackingPlanOf('x', 1, [planContract({ event_name: '=HYPERLINK("x")', description: "'-1" })]),
      ),
    );
    expect(text.split('\r\n')[1]).toBe(`track,"'=HYPERLINK(""x"")",''-1,,,,,,,,`);
    expect(readPlan(text).contracts).toMatchObject([{ event_name: '=HYPERLINK("x")', description: "'-1" }]);
  });
});
