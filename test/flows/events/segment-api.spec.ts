import { randomUUID } from 'node:crypto';
import type { CanonicalEvent, ProfileRecord } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { openEventStream } from '../../helpers/event-stream.ts';
import { openProfiles, type ProfileOrganization, sendTo } from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook } from '../../helpers/webhook.ts';

/** A name used by no other test of this file. */
const fresh = (name: string) => `${name}.${randomUUID()}`;

/** Clients built for Segment send here with another address and a write key, without any loss of data. */
describe('The Segment API', () => {
  let tributary: Tributary;
  let organization: ProfileOrganization;
  beforeAll(async () => {
    tributary = await startTributary();
    organization = await openProfiles(tributary.owner, tributary.workspaceId, sendTo(tributary.url));
  });
  afterAll(() => tributary.remove());

  const basic = () => `Basic ${Buffer.from(`${tributary.writeKey}:`).toString('base64')}`;

  async function post(path: string, body: object | string, headers: Readonly<Record<string, string>> = {}) {
    const response = await fetch(tributary.url + path, {
      method: 'POST',
      headers: { authorization: basic(), 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return { status: response.status, body: await response.json() };
  }
  const TAKEN = { status: 200, body: { success: true } };

  it('accepts a batch, and the live stream shows its calls as events with all their fields', async () => {
    const { url, idToken: token, workspaceId } = tributary;
    const stream = await openEventStream(url, { token, workspaceId });
    const userId = fresh('user');
    const sentAt = new Date(Date.now() - 3_600_000);
    const timestamp = new Date(sentAt.getTime() - 5_000).toISOString();
    const common = { userId, timestamp, integrations: { All: true }, channel: 'server' };
    const batch = [
      { type: 'track', messageId: `${userId}-1`, event: 'Paid', properties: { total: 3 }, ...common },
      { type: 'screen', messageId: `${userId}-2`, name: 'Basket', category: 'Shop', ...common },
    ];
    const context = { library: { name: 'by-hand', version: '1' } };
    expect(await post('/v1/batch', { batch, sentAt: sentAt.toISOString(), context })).toEqual(TAKEN);
    const seen = () => stream.events<CanonicalEvent>().filter(({ user_id }) => user_id === userId);
    const [paid, basket] = await eventually(seen, ({ length }) => length === 2);
    stream.close();
    const segment = {
      channel: 'server',
      sentAt: sentAt.toISOString(),
      timestamp,
    };
    const { integrations } = common;
    expect(paid).toMatchObject({ type: 'track', event: 'Paid', properties: { total: 3 }, integrations });
    expect(paid?.context).toEqual({ ...context, segment });
    const view = { type: 'screen', name: 'Basket', category: 'Shop', message_id: `${userId}-2` };
    expect(basket).toMatchObject({ ...view, integrations, context: { ...context, segment } });
    // The client's clock is an hour behind; the event happened five seconds before it was received.
    for (const { timestamp: at = '', received_at = '' } of [
      paid ?? {},
      basket ?? {},
    ] as Partial<CanonicalEvent>[])
      expect(Date.parse(received_at) - Date.parse(at)).toBe(5_000);
  });

  describe('an alias', () => {
    async function one(type: string, value: string): Promise<ProfileRecord> {
      const [found, ...others] = await organization.client.search({ [type]: [value] });
      if (found === undefined || others.length > 0) throw new Error(`not one profile has this ${type}`);
      return found;
    }
    async function call(path: string, body: object) {
      expect(await post(path, body)).toEqual(TAKEN);
      await drained(tributary, 30_000);
    }
    const identify = (userId: string, traits: object = {}) => call('/v1/identify', { userId, traits });

    it('links an anonymous visitor to the user they became', async () => {
      const [device, user] = [fresh('device'), fresh('user')];
      await call('/v1/identify', { anonymousId: device, traits: { seen: 'a banner' } });
      const before = await one('anonymous_id', device);
      await call('/v1/alias', { previousId: device, userId: user });
      const after = await one('user_id', user);
      expect(after).toMatchObject({ ucid: before.ucid, profile: { traits: { seen: 'a banner' } } });
      expect(await organization.client.search({ user_id: [device] })).toEqual([]);
    });

    it('gives a user another id', async () => {
      const [email, id] = [fresh('ann@example'), fresh('42')];
      await identify(email, { name: 'Ann' });
      await call('/v1/alias', { previousId: email, userId: id });
      expect(await one('user_id', id)).toEqual(await one('user_id', email));
      expect(await one('user_id', id)).toMatchObject({ profile: { traits: { name: 'Ann' } } });
    });

    it('never merges two people: neither two users nor two users of one device', async () => {
      const [ann, bob, tablet] = [fresh('ann'), fresh('bob'), fresh('tablet')];
      await identify(ann, { name: 'Ann' });
      await identify(bob, { name: 'Bob' });
      await call('/v1/alias', { previousId: ann, userId: bob });
      for (const userId of [ann, bob]) await call('/v1/alias', { previousId: tablet, userId });
      const [first, second] = [await one('user_id', ann), await one('user_id', bob)];
      expect(first.ucid).not.toBe(second.ucid);
      expect((await one('anonymous_id', tablet)).ucid).toBe(first.ucid);
      expect([first.profile, second.profile]).toMatchObject([
        { traits: { name: 'Ann' } },
        { traits: { name: 'Bob' } },
      ]);
    });
  });

  // Last: its contracts block the events of the others.
  it('rejected a screen and an alias by the contracts for pages and identifies, and delivered them as these', async () => {
    const { owner } = tributary;
    const webhook = await startWebhook();
    onTestFinished(() => webhook.close());
    const settings = { url: webhook.url };
    const made = await owner.post<{ id: string }>('./destinations', { name: 'd', type: 'webhook', settings });
    const event_types = ['screen', 'alias'];
    await owner.post('./event-forwarding-rules', { name: 'r', destination_id: made.id, event_types });
    for (const event_type of ['page', 'identify'])
      await owner.post('./event-contracts', {
        name: event_type,
        event_type,
        event_name: '',
        schema_definition: { required: ['never sent'] },
        enforcement_mode: 'block',
        undeclared_fields: 'allow',
      });
    const userId = fresh('u');
    const screen = { userId, name: 'Till', category: 'Shop', properties: { lane: 4 } };
    expect(await post('/v1/screen', screen)).toEqual(TAKEN);
    expect(await post('/v1/alias', { userId, previousId: 'guest-7' })).toEqual(TAKEN);
    await eventually(webhook.deliveries, ({ length }) => length === 2);
    expect(webhook.deliveries().map(({ event }) => event)).toMatchObject([
      { type: 'screen', name: 'Till', category: 'Shop', user_id: userId, properties: { lane: 4 } },
      { type: 'alias', previous_id: 'guest-7', user_id: userId },
    ]);
  });
});
