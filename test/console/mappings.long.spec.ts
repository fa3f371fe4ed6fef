import { createServer } from 'node:http';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { onLoopback } from '../helpers/on-loopback.ts';
import { drained } from '../helpers/running-tributary.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { writeInto } from './helpers/editor.ts';
import { REQUEST_ID } from './helpers/failures.ts';
import { timeInteractions } from './helpers/interactions.ts';
import { takePictures } from './helpers/pictures.ts';
import { startVendor, type Vendor } from './helpers/vendor.ts';

/** From an input to the frame that shows it, ms: the promise of the console. */
const INTERACTION_MS = 100;

const KEY = 'key-0123456789abcdef';

/** What no input of the form shows. */
const NAME = { '@path': '$.event' };
const RAW = {
  messageId: { '@path': '$.messageId', _metadata: { label: 'Id', type: 'string' } },
  event: { '@liquid': '{{ event | upcase }}' },
  properties: {
    total: { '@path': '$.properties.total' },
    list: [1, { '@path': '$.a' }],
    // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
    first: { '@if': { exists: NAME, then: NAME, else: { '@case': { value: NAME, operator: 'upper' } } } },
    lines: { '@arrayPath': ['$.properties.products', { price: { '@path': '$.price' }, n: 1.5 }] },
    // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
    unlike: { '@if': { then: NAME, blank: NAME } },
    merged: { '@merge': { direction: 'left', objects: [NAME] } },
    none: null,
    'a.b': '',
  },
  enable_batching: true,
  batch_size: 100,
};

/** Of an action in the form of release 0.2.0. */
const SEEN = {
  event_type: 'page',
  event_name: 'Seen',
  distinct_id: 'x',
  current_url: { '@path': '$.context.page.url' },
  anonymous_event_capture: true,
  enable_batching: false,
};

/** Of an action that adds people to a list, which its hook creates. */
const LIST = {
  external_id: 'from-the-mapping',
  lookup_field: 'email',
  data: { email: { '@path': '$.userId' } },
  enable_batching: true,
  batch_size: 10,
  event_name: { '@path': '$.event' },
};

/** Of an action that changes items of a catalog, which its hook has selected. */
const CATALOG = {
  item: { size: 'large' },
  onMappingSave: { inputs: {}, outputs: { catalog_name: 'teas' } },
};

interface Stored {
  readonly id: string;
  readonly settings: {
    readonly subscriptions: readonly {
      readonly name: string;
      readonly action: string;
      readonly trigger: string;
      readonly enabled: boolean;
      readonly mapping: object;
    }[];
  };
}

/** The median of what each key took to the next frame, ms: others use the machine too. */
async function typed(page: Page, field: Locator, text: string): Promise<number> {
  const interactions = await timeInteractions(page);
  await field.pressSequentially(text, { delay: 100 });
  const durations = (await interactions()).map(({ duration }) => duration).toSorted((a, b) => a - b);
  return durations[Math.floor(durations.length / 2)] ?? 0;
}

describe.skipIf(chromiumPath === undefined)('the form of mappings', () => {
  let app: ConsoleUnderTest;
  let vendor: Vendor;
  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });
  beforeAll(async () => {
    vendor = await startVendor();
    app = await startConsole();
    const { producer } = app.tributary;
    await producer.post('./events/identify', { user_id: 'ada', traits: { email: 'ada@example.com' } });
    await producer.post('./events/track', {
      event: 'Order Placed',
      user_id: 'ada',
      properties: { total: 12, cart: { size: 2 } },
    });
    await drained(app.tributary);
  });
  afterAll(async () => {
    await app?.close();
    await vendor?.close();
  });

  const make = (name: string, subscriptions?: readonly object[]) =>
    client().post<Stored>('./destinations', {
      name,
      type: 'segment-klime',
      settings: { apiEndpoint: vendor.url, writeKey: KEY, ...(subscriptions && { subscriptions }) },
    });
  const read = async (id: string) =>
    (await client().get<Stored>(`./destinations/${id}`)).settings.subscriptions;

  async function open(id: string) {
    const opened = await app.open(`/destinations/${id}?tab=settings`);
    await opened.page.getByRole('region', { name: 'Mappings' }).waitFor();
    return opened;
  }

  /** A choice of a segmented control, whose radio is hidden. */
  const segment = (page: Page, name: string) =>
    page.locator('label').filter({ hasText: new RegExp(`^${name}$`) });

  const save = async (page: Page) => {
    const saved = page.waitForResponse((answer) => answer.request().method() === 'PUT' && answer.ok());
    await page.getByRole('button', { name: 'Save' }).click();
    await saved;
  };

  it('finds a kind among all of them by words and by category', async () => {
    const { page } = await app.open('/destinations/new');
    const kinds = page.getByRole('main').getByRole('button', { name: /\w/ });
    await page.getByRole('button', { name: /^Klime/ }).waitFor();
    expect(await kinds.count()).toBeGreaterThan(170);
    await takePictures(page, 'kinds');
    await expectAccessible(page);
    await page.getByRole('textbox', { name: 'Find a kind' }).fill('braze');
    await page.getByText(/^\d of \d+ kinds$/).waitFor();
    await page.getByRole('textbox', { name: 'Find a kind' }).fill('');
    await page.getByRole('combobox', { name: 'Category' }).click();
    await page.getByRole('option', { name: 'Billing' }).click();
    await page.waitForURL(/category=Billing/);
    await page.getByRole('button', { name: /^ChartMogul/ }).waitFor();
    expect(await page.getByRole('button', { name: /^Klime/ }).count()).toBe(0);
    await page.reload();
    await page.getByRole('button', { name: /^ChartMogul/ }).waitFor();
    expect(await page.getByRole('button', { name: /^Klime/ }).count()).toBe(0);
  });

  it(`answers each key within ${INTERACTION_MS} ms, with all kinds and with a mapping of 47 fields`, async () => {
    const { page } = await app.open('/destinations/new');
    const search = page.getByRole('textbox', { name: 'Find a kind' });
    await search.waitFor();
    const inSearch = await typed(page, search, 'amplitude');
    await page
      .getByRole('button', { name: /^Amplitude/ })
      .first()
      .click();
    await page.getByRole('button', { name: 'Add a mapping' }).click();
    await page.getByRole('menuitem', { name: /^Log Purchase/ }).click();
    await page.getByRole('button', { name: /^Show \d+ more fields$/ }).click();
    await takePictures(page, 'mapping-of-many-fields');
    const inMapping = await typed(
      page,
      page.getByRole('textbox', { name: 'Name of the mapping' }),
      'purchases',
    );
    console.info(`the median key: ${inSearch} ms among all kinds, ${inMapping} ms in a mapping of 47 fields`);
    expect(Math.max(inSearch, inMapping)).toBeLessThan(INTERACTION_MS);
  });

  it('keeps what it cannot show, whatever else is changed', async () => {
    const { id } = await make('Raw', [
      {
        name: 'Raw',
        action: 'track',
        trigger: 'type = "track" and properties.total > 1',
        mapping: RAW,
        enabled: true,
      },
    ]);
    const before = await read(id);
    const { page } = await open(id);
    await page.getByRole('button', { name: /^Raw/ }).click();
    await page.getByRole('textbox', { name: 'Name of the mapping' }).fill('Renamed');
    await page.getByRole('textbox', { name: 'JSON of Event Name' }).waitFor();
    await page.getByRole('combobox', { name: 'Event field of total' }).waitFor();
    await page.getByRole('combobox', { name: 'How first, choice 2 is made' }).waitFor();
    await page.getByRole('textbox', { name: 'JSON of unlike' }).waitFor();
    await expectAccessible(page);
    // Through each input. Escape lets an editor go.
    const last = page.getByRole('button', { name: 'Add a mapping' });
    while (!(await last.evaluate((button) => button === document.activeElement))) {
      await page.keyboard.press('Escape');
      await page.keyboard.press('Tab');
    }
    await takePictures(page, 'mapping-raw');
    await save(page);
    expect(await read(id)).toEqual(before.map((one) => ({ ...one, name: 'Renamed' })));
    // As JSON as a whole, and back.
    await segment(page, 'JSON').click();
    await page.getByRole('textbox', { name: 'Mapping of Renamed' }).waitFor();
    await segment(page, 'Form').click();
    await page.getByRole('textbox', { name: 'JSON of Event Name' }).waitFor();
    await writeInto(page.getByRole('textbox', { name: 'JSON of Event Name' }), '{"@case": ');
    await page.getByText('is not valid JSON').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    expect(await read(id)).toEqual(before.map((one) => ({ ...one, name: 'Renamed' })));
    await writeInto(
      page.getByRole('textbox', { name: 'JSON of Event Name' }),
      '{"@template": "x {{event}}"}',
    );
    await save(page);
    expect((await read(id))[0]?.mapping).toEqual({ ...RAW, event: { '@template': 'x {{event}}' } });
  });

  it('makes values by forms, beside what they are for the event', async () => {
    const { id } = await make('Forms');
    const { page, watch } = await open(id);
    watch.expectStatus(400);
    const mappings = page.getByRole('region', { name: 'Mappings' });
    const how = (name: string) => page.getByRole('combobox', { name: `How ${name} is made` });
    // The newest event that the mapping takes.
    await mappings.getByRole('button', { name: /^Identify User/ }).click();
    await mappings.getByText('This event: "ada"').waitFor();
    await mappings
      .getByRole('button', { name: /^Track Event/ })
      .first()
      .click();
    await mappings.getByText('This event: "Order Placed"').waitFor();
    const path = page.getByRole('combobox', { name: 'Event field of Event Name' });
    await path.fill('properties');
    await page.getByRole('option', { name: '$.properties.total 12' }).waitFor();
    await takePictures(page, 'mapping-paths');
    await path.fill('size');
    await page.getByRole('option', { name: '$.properties.cart.size 2' }).click();
    // Its action takes texts.
    await mappings.getByText('This event: "2"').waitFor();

    await how('Event Name').selectOption('First of several');
    await page
      .getByRole('combobox', { name: 'Event field of Event Name, choice 1' })
      .fill('$.properties.title');
    await mappings.getByText('must name a field').waitFor();
    await how('Event Name, choice 2').selectOption('Template');
    await page
      .getByRole('textbox', { name: 'Template of Event Name, choice 2' })
      .fill('Of {{properties.total}}');
    await page.getByRole('button', { name: 'Add a choice' }).click();
    await page.getByRole('button', { name: 'Remove choice 3 of Event Name' }).click();
    await mappings.getByText('This event: "Of 12"').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'mapping-first');

    await how('Event Name, choice 2').selectOption('Condition');
    await how('Event Name, choice 2, condition').selectOption('Event field');
    await page
      .getByRole('combobox', { name: 'Event field of Event Name, choice 2, condition' })
      .fill('$.properties.total');
    await page.getByRole('textbox', { name: 'Value of Event Name, choice 2, then' }).fill('Paid');
    await how('Event Name, choice 2, otherwise').selectOption('Value');
    await page.getByRole('textbox', { name: 'Value of Event Name, choice 2, otherwise' }).fill('Free');
    await mappings.getByText('This event: "Paid"').waitFor();
    await how('Message ID').selectOption('Converted');
    await page.getByRole('combobox', { name: 'Conversion of Message ID' }).selectOption('text replaced');
    await page.getByRole('textbox', { name: 'Text to replace of Message ID' }).fill('-');
    await page.getByRole('textbox', { name: 'Replacement of Message ID' }).fill('much too long a text');
    await expectAccessible(page);
    await takePictures(page, 'mapping-condition');
    await page.getByRole('button', { name: 'Save' }).click();
    await mappings.getByText('@replace.replacement must be a text of 0 to 10 characters').waitFor();
    await page.getByRole('textbox', { name: 'Replacement of Message ID' }).fill('');
    await save(page);
    const title = { '@path': '$.properties.title' };
    expect((await read(id)).find(({ name }) => name === 'Track Event')?.mapping).toMatchObject({
      event: {
        '@if': {
          exists: title,
          // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
          then: title,
          // biome-ignore lint/suspicious/noThenProperty: a member of a directive of Segment's mapping kit
          else: { '@if': { exists: { '@path': '$.properties.total' }, then: 'Paid', else: 'Free' } },
        },
      },
      messageId: { '@replace': { pattern: '-', replacement: '', value: { '@path': '$.messageId' } } },
    });
  });

  it('switches batches, and bounds them', async () => {
    const { id } = await make('Batches');
    const { page } = await open(id);
    await page.getByRole('button', { name: /^Track Event/ }).click();
    const batches = page.getByRole('switch', { name: 'Send in batches' });
    expect(await batches.isChecked()).toBe(true);
    await batches.uncheck({ force: true });
    await save(page);
    const track = async () => (await read(id)).find(({ name }) => name === 'Track Event');
    expect(await track()).toMatchObject({ batch: false });
    await batches.check({ force: true });
    await page.getByRole('textbox', { name: /^Value of .*Batch Size/i }).fill('20');
    await expectAccessible(page);
    await takePictures(page, 'mapping-batches');
    await save(page);
    expect(await track()).toMatchObject({ batch: true, mapping: { batch_size: 20 } });
  });

  it('shows the faults that the API finds at their fields', async () => {
    const { id } = await make('Faults');
    const { page, watch } = await open(id);
    watch.expectStatus(400);
    await page.getByRole('button', { name: /^Identify User/ }).click();
    await page.getByRole('combobox', { name: 'How User ID is made' }).selectOption('Not set');
    await page
      .getByRole('button', { name: /^Track Group/ })
      .first()
      .click();
    await segment(page, 'Query').click();
    await page.getByRole('textbox', { name: 'Trigger', exact: true }).fill('type == "group"');
    await page
      .getByRole('button', { name: /^Track Event/ })
      .first()
      .click();
    await page.getByRole('combobox', { name: 'How Message ID is made' }).selectOption('Value');
    await page.getByRole('textbox', { name: 'Value of Message ID' }).fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    const mapping = page.getByRole('region', { name: 'Mappings' });
    await mapping.getByText('is required: Message ID').first().waitFor();
    await page.getByText('The marked field needs a change').waitFor();
    await mapping.getByRole('button', { name: /^Track Group.*Needs a change/ }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'mapping-faults');
    await mapping.getByRole('combobox', { name: 'How Message ID is made' }).selectOption('As proposed');
    await expect.poll(() => mapping.getByText('is required: Message ID').count()).toBe(0);
    await mapping
      .getByRole('button', { name: /^Track Group/ })
      .first()
      .click();
    await mapping
      .getByText(/in place of/)
      .first()
      .waitFor();
    await mapping.getByRole('textbox', { name: 'Trigger', exact: true }).fill('type = "group"');
    await expect.poll(() => mapping.getByText(/in place of/).count()).toBe(0);
  });

  it('adds, duplicates, moves, switches and deletes mappings, and builds triggers', async () => {
    const { id } = await make('Several');
    const { page } = await open(id);
    await page.getByRole('button', { name: 'Add a mapping' }).click();
    await page.getByRole('menuitem', { name: /^Track Event/ }).click();
    const names = page.getByRole('combobox', { name: 'Names of events' });
    await names.fill('Order Refunded');
    await names.press('Enter');
    await page.getByRole('textbox', { name: 'Name of the mapping' }).fill('Refunds');
    await page.getByRole('button', { name: 'More of Refunds' }).click();
    await page.getByRole('menuitem', { name: 'Move up' }).click();
    await page.getByRole('button', { name: 'More of Identify User' }).click();
    await page.getByRole('menuitem', { name: 'Duplicate' }).click();
    await page.getByRole('button', { name: 'More of Track Event' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('switch', { name: 'Enable Track Group' }).click({ force: true });
    await save(page);
    expect((await read(id)).map(({ name, trigger, enabled }) => [name, trigger, enabled])).toEqual([
      ['Identify User', 'type = "identify"', true],
      ['Refunds', 'type = "track" and event = "Order Refunded"', true],
      ['Track Group', 'type = "group"', false],
      ['Identify User (copy)', 'type = "identify"', true],
    ]);
  });

  it('previews an event of one’s own, why it does not match, and a preview that fails', async () => {
    const { id } = await make('Own');
    const { page, failures } = await open(id);
    const preview = page.getByRole('region', { name: 'Preview' });
    await preview.getByLabel('Event', { exact: true }).selectOption('Your own, as JSON');
    const editor = preview.getByRole('textbox', { name: 'Event of the preview' });
    await writeInto(editor, '{"type": "page", "name": "Home", "user_id": "eve"}');
    await preview.getByRole('button', { name: 'Preview' }).click();
    await preview.getByText('0 of 3 mappings take this event').waitFor();
    await preview.getByRole('button', { name: /^Track Event/ }).click();
    await preview.getByText('It is for track events; this is a page.').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'mapping-own-event');
    await writeInto(editor, '{"type": ');
    await preview.getByText('The event must be a JSON object').waitFor();
    const down = await failures.answer('**/preview', 503);
    await writeInto(editor, '{"type": "identify", "user_id": "eve"}');
    await preview.getByText(REQUEST_ID).waitFor();
    await down.end();
    await writeInto(editor, '{"type": "identify", "user_id": "mia"}');
    await preview.getByText('1 of 3 mappings takes this event').waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Changed');
    await preview.getByText('Save first').waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Own');
    const refused = await failures.answer(/\/test$/, 429);
    await preview.getByRole('button', { name: 'Send for real' }).click();
    await preview.getByText(REQUEST_ID).waitFor();
    await refused.end();
    await preview.getByRole('button', { name: 'Send for real' }).click();
    await preview.getByText('The service took it').waitFor();
    expect(vendor.events.at(-1)).toMatchObject({ userId: 'mia' });
  });

  it('offers the choices that the service has for a field, and takes any other text', async () => {
    const { id } = await client().post<Stored>('./destinations', {
      name: 'Experiments',
      type: 'segment-optimizely-feature-experimentation-actions',
      settings: { accountId: '7', dataFileUrl: 'https://cdn.optimizely.com/datafiles/x.json' },
    });
    const { page } = await open(id);
    const asked: unknown[] = [];
    // The service itself cannot be reached from a test.
    await page.route('**/dynamic-field', (route) => {
      asked.push(route.request().postDataJSON());
      return route.fulfill({
        json: { choices: [{ value: 'purchase', label: 'Purchases', description: 'All' }] },
      });
    });
    await page.getByRole('region', { name: 'Mappings' }).getByRole('button').first().click();
    await page.getByRole('combobox', { name: 'How Event Key is made' }).selectOption('Value');
    const value = page.getByRole('combobox', { name: 'Value of Event Key' });
    await value.click();
    await page.getByRole('option', { name: /Purchases/ }).click();
    await page.getByRole('region', { name: 'Mappings' }).getByText('Purchases', { exact: true }).waitFor();
    await expectAccessible(page);
    expect(asked[0]).toMatchObject({ action: 'trackEvent', field: 'eventKey' });
    await page.route('**/dynamic-field', (route) =>
      route.fulfill({ json: { choices: [], error: { message: 'The token is wrong', code: '401' } } }),
    );
    await value.fill('refund');
    await page.getByText('No choices: The token is wrong').waitFor();
    await save(page);
    expect((await read(id))[0]?.mapping).toMatchObject({ eventKey: 'refund' });
  });

  it('runs a hook, says that the end of a run is unknown, and keeps what the service made', async () => {
    let lists = 0;
    let isSilent = true;
    const marketo = await onLoopback(
      createServer((request, response) => {
        response.setHeader('content-type', 'application/json');
        if (request.url?.includes('/oauth/')) return response.end('{"access_token":"t"}');
        if (request.url?.includes('/folder/')) return response.end('{"success":true,"result":[{"id":7}]}');
        if (isSilent) return response.destroy();
        lists += 1;
        return response.end(`{"success":true,"result":[{"id":${lists}}]}`);
      }),
    );
    onTestFinished(() => marketo.close());
    const { id } = await client().post<Stored>('./destinations', {
      name: 'Lists',
      type: 'segment-marketo-static-lists',
      settings: {
        client_id: 'id',
        client_secret: KEY,
        api_endpoint: marketo.url,
        folder_name: 'folder',
        subscriptions: [{ name: 'Tea', action: 'addToList', trigger: 'type = "track"', mapping: LIST }],
      },
    });
    const { page, watch } = await open(id);
    await page.getByRole('button', { name: /^Tea/ }).click();
    const hook = page.getByRole('region', { name: 'Connect to a static list in Marketo' });
    await hook.getByRole('textbox', { name: 'Value of List Name' }).fill('Tea drinkers');
    await hook.getByRole('button', { name: 'Run at the service' }).click();
    await hook.getByText('How the last run ended is unknown').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'mapping-hook-unknown');
    isSilent = false;
    await hook.getByRole('button', { name: 'Run again' }).click();
    await hook.getByText('"name": "Tea drinkers"').waitFor();
    const kept = { inputs: { list_name: 'Tea drinkers' }, outputs: { id: '1', name: 'Tea drinkers' } };
    expect((await read(id))[0]?.mapping).toEqual({ ...LIST, retlOnMappingSave: kept });
    await expectAccessible(page);
    await takePictures(page, 'mapping-hook');

    // The form goes on with what the run has saved.
    await page.getByRole('textbox', { name: 'Name of the mapping' }).fill('Tea and more');
    await hook.getByText('Save first').waitFor();
    await save(page);
    expect(await read(id)).toMatchObject([
      { name: 'Tea and more', mapping: { ...LIST, retlOnMappingSave: kept } },
    ]);

    // Another person runs it meanwhile, and does not learn how that ends.
    watch.expectStatus(409);
    const runsInto = async (conflict: object, text: string) => {
      await page.route('**/hook', (route) =>
        route.fulfill({ status: 409, json: { error: 'conflict', causes: [], ...conflict } }),
      );
      await hook.getByRole('button', { name: 'Run with these values' }).click();
      await hook.getByText(text).waitFor();
    };
    await runsInto({ reason: 'hook_unfinished' }, 'How an earlier run ended is unknown');
    await runsInto({ reason: 'version', outputs: { id: '2' } }, 'The service made this');
  });

  it('asks the service for the choices of the inputs of a hook', async () => {
    const { id } = await client().post<Stored>('./destinations', {
      name: 'Conversions',
      type: 'segment-braze',
      settings: {
        app_id: 'a',
        api_key: KEY,
        endpoint: 'https://rest.iad-01.braze.com',
        subscriptions: [
          {
            name: 'Items',
            action: 'upsertCatalogItem',
            trigger: 'type = "track"',
            mapping: CATALOG,
            enabled: false,
          },
        ],
      },
    });
    const { page, watch } = await open(id);
    watch.expectStatus(400); // a preview of what is not complete
    const asked: unknown[] = [];
    await page.route('**/dynamic-field', (route) => {
      asked.push(route.request().postDataJSON());
      return route.fulfill({ json: { choices: [{ value: 'teas', label: 'Teas' }] } });
    });
    await page.getByRole('button', { name: /^Items/ }).click();
    const hook = page.getByRole('region', { name: /catalog/i });
    await hook.getByRole('combobox', { name: /^Value of Operation/ }).click();
    await page.getByRole('option', { name: /select/i }).click();
    await hook.getByRole('combobox', { name: 'Value of Catalog Name' }).click();
    await page.getByRole('option', { name: /Teas/ }).click();
    expect(asked[0]).toMatchObject({
      action: 'upsertCatalogItem',
      hook: 'onMappingSave',
      field: 'selected_catalog_name',
      inputs: { operation: 'select' },
    });
    // The names of the members of an object, which depend on what the hook made.
    await page.getByRole('combobox', { name: /^Name of a new member of Catalog item/ }).click();
    await page.getByRole('option', { name: /Teas/ }).click();
    await page.keyboard.press('Enter');
    await page.getByRole('combobox', { name: 'How teas is made' }).waitFor();
    expect(asked.at(-1)).toMatchObject({
      field: 'item.__keys__',
      payload: { onMappingSave: { outputs: { catalog_name: 'teas' } } },
    });
    await expectAccessible(page);
    await takePictures(page, 'mapping-hook-choices');
  });

  it('writes out the mappings of a destination of release 0.2.0', async () => {
    const { id } = await client().post<Stored>('./destinations', {
      name: 'Earlier',
      type: 'segment-posthog',
      settings: {
        api_key: KEY,
        project_id: '7',
        endpoint: 'https://eu.i.posthog.com',
        presets: ['Identify'],
        actions: [{ action: 'event', subscribe: 'type = "page"', mapping: SEEN }],
      },
    });
    const { page } = await app.open(`/destinations/${id}?tab=settings`);
    await page.getByRole('button', { name: 'Write them out' }).click();
    await page.getByRole('region', { name: 'Mappings' }).waitFor();
    await save(page);
    const { settings } = await client().get<Stored>(`./destinations/${id}`);
    expect(settings).not.toHaveProperty('presets');
    expect(settings.subscriptions).toMatchObject([
      { name: 'Identify', action: 'identify', trigger: 'type = "identify"' },
      { action: 'event', trigger: 'type = "page"', mapping: SEEN },
    ]);
  });
});

describe.skipIf(chromiumPath === undefined)('webhooks of another service', () => {
  let app: ConsoleUnderTest;
  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });
  beforeAll(async () => {
    app = await startConsole();
  });
  afterAll(() => app?.close());

  async function deliver(address: string, secret: string, id: string): Promise<number> {
    const body = JSON.stringify({ action: 'opened', sender: { login: 'ada' } });
    const key = await crypto.subtle.importKey(
      'raw',
      Buffer.from(secret),
      { name: 'HMAC', hash: 'SHA-256' },
      false,
      ['sign'],
    );
    const signature = Buffer.from(await crypto.subtle.sign('HMAC', key, Buffer.from(body))).toString('hex');
    const response = await fetch(address, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-hub-signature-256': `sha256=${signature}`,
        'x-github-event': 'issues',
        'x-github-delivery': id,
      },
      body,
    });
    return response.status;
  }

  it('get an address, arrive, and go on while their secret is changed', async () => {
    const { page } = await app.open('/keys?tab=sources');
    await page.getByRole('button', { name: 'Create source' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Issues');
    await dialog.getByRole('combobox', { name: 'Receives webhooks of' }).click();
    await page.getByRole('option', { name: 'GitHub' }).click();
    await dialog.getByLabel('Secret', { exact: false }).first().fill('it-is-a-secret');
    await dialog.getByRole('button', { name: 'Fields of the payload' }).click();
    await dialog.getByRole('textbox', { name: 'User id' }).fill('/sender/login');
    await expectAccessible(page);
    await takePictures(page, 'webhook-source');
    await dialog.getByRole('button', { name: 'Create source' }).click();
    await dialog.getByRole('button', { name: 'Make the address' }).click();
    await page.getByText('Waiting for the first event').waitFor();
    const address = (await page.getByText(/\/webhooks\/trb_wk_/).textContent()) ?? '';
    await expectAccessible(page);
    await takePictures(page, 'webhook-address');
    expect(await deliver(address, 'it-is-a-secret', 'one')).toBe(200);
    await page.getByText('The first event arrived').waitFor();

    await page.goto(app.addressOf('/keys?tab=sources'));
    const change = async (fill: () => Promise<void>) => {
      await page.getByRole('button', { name: 'Edit Issues' }).click();
      await fill();
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await change(() => dialog.getByPlaceholder('Stored. Type to replace it.').fill('the-next-secret'));
    expect(await deliver(address, 'the-next-secret', 'two')).toBe(200);
    expect(await deliver(address, 'it-is-a-secret', 'three')).toBe(200);
    await change(() =>
      dialog.getByRole('switch', { name: 'Accept the secret before it too' }).uncheck({ force: true }),
    );
    expect(await deliver(address, 'the-next-secret', 'four')).toBe(200);
    expect(await deliver(address, 'it-is-a-secret', 'five')).toBe(401);
    const [source] = await client().get<readonly { readonly webhook: object }[]>('./sources?q=Issues');
    expect(source?.webhook).toMatchObject({
      kind: 'github',
      user_id: '/sender/login',
      secrets: ['********'],
    });
  });

  it('are refused by the form without a secret, and of an own form say what is wrong', async () => {
    const { page, watch } = await app.open('/keys?tab=sources');
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Create source' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Shop');
    await dialog.getByRole('combobox', { name: 'Receives webhooks of' }).click();
    await page.getByRole('option', { name: 'Another service that signs (HMAC)' }).click();
    await dialog.getByRole('textbox', { name: 'Header of the signature' }).fill('not a header');
    await dialog.getByRole('button', { name: 'Create source' }).click();
    await dialog.getByText('The marked field needs a change').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'webhook-hmac');
    await dialog.getByRole('textbox', { name: 'Header of the signature' }).fill('X-Signature');
    await dialog.getByRole('button', { name: 'Create source' }).click();
    await dialog.getByText('is required for the kind hmac').waitFor();
  });
});
