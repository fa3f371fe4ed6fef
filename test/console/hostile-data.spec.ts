import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { drained } from '../helpers/running-tributary.ts';
import { startWebhook, type Webhook } from '../helpers/webhook.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';

/** Would say so in `globalThis.ran` if a page took it for markup. */
const HOSTILE = '<script>globalThis.ran=1</script><img src=x onerror="globalThis.ran=2">';
const PASSWORD = 'correct horse battery staple';

/** The data that a page keeps beyond its memory. */
const KEPT = 'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, document.cookie])';
/** The text of a page beside its frame, with that of its fields. */
const SHOWN = `[
  document.querySelector('main')?.textContent ?? '',
  ...[...document.querySelectorAll('main input, main textarea')].map(({ value }) => value),
].join('\\n')`;
const TAKEN_FOR_MARKUP = `({
  ran: Object.hasOwn(globalThis, 'ran'),
  elements: document.querySelectorAll('img[src="x"], body script:not([src])').length,
})`;

interface Created {
  readonly id: string;
}

describe.skipIf(chromiumPath === undefined)('a workspace with a script as every name and value', () => {
  let app: ConsoleUnderTest;
  let webhook: Webhook;
  const ids = {
    message: '',
    contract: '',
    transformation: '',
    destination: '',
    delivery: '',
    rule: '',
    key: '',
    organization: '',
  };
  beforeAll(async () => {
    app = await startConsole({ env: { LOG_LEVEL: 'debug' } });
    webhook = await startWebhook((_, response) => response.writeHead(422).end(HOSTILE));
    await fill();
  });
  afterAll(async () => {
    await webhook?.close();
    await app?.close();
  });

  it('shows them as text on every page', async () => {
    const { page } = await app.open('/profiles');
    const pages: readonly (readonly [string, string])[] = [
      ['overview', '/overview'],
      ['recent events', '/events'],
      ['event', `/events/${ids.message}`],
      ['write keys', '/keys'],
      ['sources', '/keys?tab=sources'],
      ['API keys', '/keys?tab=api'],
      ['write key', `/keys/${ids.key}`],
      ['contracts', '/contracts'],
      ['contract', `/contracts/${ids.contract}`],
      ['violations', `/contracts/${ids.contract}?tab=violations`],
      ['versions of a contract', `/contracts/${ids.contract}?tab=versions`],
      ['new contract', `/contracts/new?type=track&name=${encodeURIComponent(HOSTILE)}`],
      ['transformations', '/transformations'],
      ['transformation', `/transformations/${ids.transformation}`],
      ['runs', `/transformations/${ids.transformation}?tab=runs`],
      ['users of a transformation', `/transformations/${ids.transformation}?tab=rules`],
      ['destinations', '/destinations'],
      ['destination', `/destinations/${ids.destination}`],
      ['settings of a destination', `/destinations/${ids.destination}?tab=settings`],
      ['rules of a destination', `/destinations/${ids.destination}?tab=rules`],
      ['matrix of rules', '/rules'],
      ['rules', '/rules?view=list'],
      ['rule', `/rules/${ids.rule}`],
      ['failures', '/deliveries'],
      ['deliveries', '/deliveries?tab=list'],
      ['one delivery', `/deliveries/${ids.delivery}`],
      ['replays', '/deliveries?tab=replays'],
      ['settings', '/settings'],
      ['workspaces', `~/organizations/${ids.organization}`],
      ['client keys', `~/organizations/${ids.organization}?tab=client-keys`],
      ['organization', `~/organizations/${ids.organization}?tab=general`],
      ['audit log', '/settings?tab=audit-log'],
    ];
    for (const [name, path] of pages) {
      // By way of a page that has none of the names: the one before stays until the next one is loaded.
      await follow(page, '/profiles');
      await page.getByRole('heading', { level: 1, name: 'Profiles' }).waitFor();
      await follow(page, path);
      await expectText(page, name);
    }
  });

  it('shows them as text: live, with an event open', async () => {
    const { page } = await app.open('/live');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await app.tributary.producer.post('./events/track', { event: HOSTILE, user_id: HOSTILE });
    await page
      .getByRole('table', { name: 'Live events' })
      .getByRole('button', { name: HOSTILE })
      .first()
      .click();
    await page.getByRole('dialog').getByText(HOSTILE).first().waitFor();
    await expectText(page);
  });

  it('shows them as text: a profile', async () => {
    const { page } = await app.open('/profiles');
    await page.getByLabel('Identity', { exact: true }).fill(HOSTILE);
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByRole('article', { name: 'Profile' }).getByRole('table', { name: 'Attributes' }).waitFor();
    await expectText(page);
    await page.getByRole('button', { name: 'Delete profile' }).click();
    await page.getByRole('dialog').getByText(HOSTILE).first().waitFor();
    await expectText(page);
  });

  it('keeps keys, tokens and passwords out of storage, URLs, the history and the log', async () => {
    const { page } = await app.open('/keys');
    const visited: string[] = [];
    const tokens = new Set<string>();
    page.on('framenavigated', (frame) => visited.push(frame.url()));
    page.on('request', (request) => {
      const token = /^Bearer (.+)$/.exec(request.headers().authorization ?? '')?.[1];
      if (token !== undefined) tokens.add(token);
    });
    await page.getByRole('button', { name: 'Create write key' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('Secret');
    await page.getByRole('dialog').getByRole('button', { name: 'Create write key' }).click();
    const snippet = await page.getByText('curl -s').textContent();
    const writeKey = /-u '([^:]+):'/.exec(snippet ?? '')?.[1] ?? '';
    expect(writeKey.length).toBeGreaterThan(20);
    await page.getByRole('link', { name: 'Destinations' }).click();
    await page.getByRole('link', { name: 'New destination' }).first().click();
    await page.getByRole('button', { name: /^PostgreSQL(?! \(warehouse)/ }).click();
    for (const [label, text] of [
      ['Name', 'Warehouse'],
      ['Host', '127.0.0.1'],
      ['Database', 'events'],
      ['User', 'tributary'],
    ] as const)
      await page.getByRole('textbox', { name: label, exact: true }).fill(text);
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByRole('heading', { name: 'Warehouse is there' }).waitFor();
    await page.getByRole('link', { name: 'Open Warehouse' }).click();
    await page.getByRole('heading', { level: 1, name: 'Warehouse' }).waitFor();
    await app.tributary.producer
      .with({ token: writeKey })
      .post('./events/track', { event: 'A', user_id: 'a' });

    expect(tokens.size).toBeGreaterThan(0);
    const kept = await page.evaluate<string>(KEPT);
    // A healthy server logs nothing; its lines about shutting down show that the log is read. This test is the last.
    await page.close();
    await app.tributary.stop();
    for (const secret of [writeKey, PASSWORD, ...tokens]) {
      expect(kept).not.toContain(secret);
      expect(visited.join('\n')).not.toContain(secret);
      expect(app.tributary.log()).not.toContain(secret);
    }
    expect(app.tributary.log()).not.toBe('');
  });

  /** The part of the page beside the menu has the text, and nothing of it is markup or has run. */
  async function expectText(page: Page, name = 'the page'): Promise<void> {
    await expect.poll(() => page.evaluate<string>(SHOWN), { message: name }).toContain(HOSTILE);
    const found = await page.evaluate<object>(TAKEN_FOR_MARKUP);
    expect(found, name).toEqual({ ran: false, elements: 0 });
  }

  /** Goes where a link of the console would lead, without loading the console again. */
  async function follow(page: Page, path: string): Promise<void> {
    await page.evaluate(`history.pushState(null, '', ${JSON.stringify(app.addressOf(path))})`);
  }

  async function fill(): Promise<void> {
    const { owner, producer, workspaceId } = app.tributary;
    const workspace = await owner.get<{ organization_id: string; region: string }>(
      `/workspaces/${workspaceId}`,
    );
    ids.organization = workspace.organization_id;
    await owner.put(`/workspaces/${workspaceId}`, { name: HOSTILE, region: workspace.region });
    await owner.ok('PATCH', `/organizations/${ids.organization}`, { name: HOSTILE });
    await owner.post('./sources', { name: HOSTILE, type: 'web', description: HOSTILE });
    ids.key = (await owner.post<Created>('./event-keys', { name: HOSTILE, environment: 'production' })).id;
    await owner.post('./api-keys', { name: HOSTILE, role: 'viewer' });
    await owner.post(`/organizations/${ids.organization}/client-keys`, {
      name: HOSTILE,
      scopes: ['profile.read'],
    });
    const contract = await owner.post<Created>('./event-contracts', {
      name: HOSTILE,
      description: HOSTILE,
      event_type: 'track',
      event_name: HOSTILE,
      enforcement_mode: 'warn',
      schema_definition: {
        properties: { [HOSTILE]: { type: 'number', description: HOSTILE, enum: [1, 2] } },
      },
    });
    ids.contract = contract.id;
    await owner.ok('PATCH', `./event-contracts/${contract.id}`, { description: `${HOSTILE} ` });
    const test = { type: 'track', event: 'Test' };
    const transformation = await owner.post<Created>('./event-transformations', {
      name: HOSTILE,
      description: HOSTILE,
      source_code: `// ${HOSTILE}\nfunction transform(event) { if (event.event !== 'Test') throw new Error(${JSON.stringify(HOSTILE)}); return event; }`,
      test_input: { ...test, properties: { [HOSTILE]: HOSTILE } },
      test_output: { ...test, properties: { [HOSTILE]: HOSTILE } },
    });
    ids.transformation = transformation.id;
    const destination = await owner.post<Created>('./destinations', {
      name: HOSTILE,
      type: 'webhook',
      settings: { url: webhook.url },
    });
    ids.destination = destination.id;
    for (const transformation_id of [null, transformation.id]) {
      const rule = {
        name: HOSTILE,
        destination_id: destination.id,
        event_types: ['track'],
        event_names: [HOSTILE],
      };
      const created = await owner.post<Created>('./event-forwarding-rules', { ...rule, transformation_id });
      ids.rule = created.id;
    }
    const sent = await producer.post<{ message_id: string }>('./events/track', {
      event: HOSTILE,
      user_id: HOSTILE,
      anonymous_id: HOSTILE,
      properties: { [HOSTILE]: HOSTILE, nested: { [HOSTILE]: [HOSTILE] } },
      context: { [HOSTILE]: HOSTILE },
    });
    ids.message = sent.message_id;
    await producer.post('./events/identify', {
      user_id: HOSTILE,
      traits: { [HOSTILE]: HOSTILE, list: [HOSTILE] },
    });
    await producer.post('./events/group', { user_id: HOSTILE, group_id: HOSTILE, traits: { name: HOSTILE } });
    await producer.post('./events/page', { user_id: HOSTILE, name: HOSTILE, properties: { url: HOSTILE } });
    await drained(app.tributary);
    await eventually(
      () => owner.get<{ groups: readonly object[] }>('./deliveries/groups'),
      ({ groups }) => groups.length >= 2,
    );
    const [dead] = await owner.get<readonly Created[]>('./deliveries?status=dead&cause=destination');
    ids.delivery = dead?.id ?? '';
    await owner.post('./replays', {
      since: new Date(Date.now() - 3_600_000).toISOString(),
      event_names: [HOSTILE],
      event_types: ['track'],
    });
  }
});
