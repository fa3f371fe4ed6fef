import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { mountSmallDisk, whyNoMounts } from '../../helpers/folder.ts';
import { ProfileClient, sendTo } from '../../helpers/profile-client.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import type { Tributary } from '../../helpers/running-tributary.ts';
import { forwardTo, Receivers } from '../../helpers/webhook.ts';

const noMounts = await whyNoMounts();
if (noMounts !== undefined)
  console.warn(`SKIPPED, as nothing can be mounted here: a disk with no byte left (${noMounts})`);

const DISK_MIB = 192;
const ENVIRONMENT = { TRIBUTARY_RETRY_SCHEDULE: '300ms,2s,4s,10s,20s' };
const FLOW_MS = 150_000;

const freeBytes = (path: string) => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

/** Fills the disk as another program would, to its last byte. */
function fill(file: string): void {
  const descriptor = openSync(file, 'a');
  try {
    for (let bytes = 2 ** 20; bytes >= 1; bytes = Math.floor(bytes / 2)) {
      try {
        for (;;) writeSync(descriptor, Buffer.alloc(bytes, 1));
      } catch (error) {
        expect(error).toMatchObject({ code: 'ENOSPC' });
      }
    }
  } finally {
    closeSync(descriptor);
  }
}

/** A person without an account signs in. */
async function signIn(tributary: Tributary, email: string): Promise<{ status: number; email?: string }> {
  const { output } = await ranHere(['token', '--email', email], tributary.environment);
  const { status, body } = await new Client(tributary.url, output.trim()).call<{ email: string }>(
    'GET',
    '/me',
  );
  return status === 200 ? { status, email: body.email } : { status };
}

describe.skipIf(noMounts !== undefined)('a disk with no byte left', () => {
  it(
    'could not be cleaned up: everything can be removed and people sign in, also after a restart, and nothing accepted is lost',
    async () => {
      const disk = await mountSmallDisk(DISK_MIB);
      onTestFinished(() => disk.remove());
      const folder = join(disk.path, 'data');
      mkdirSync(folder);
      const filler = join(disk.path, 'filler');
      // What was being written when the disk became full is removed again, a piece of ballast above all.
      const fillUp = () =>
        eventually(
          () => {
            fill(filler);
            return freeBytes(disk.path);
          },
          (free) => free === 0,
        );
      let tributary: Tributary = await startEmbedded(folder, ENVIRONMENT);
      onTestFinished(() => tributary.kill());
      const receivers = new Receivers();
      onTestFinished(() => receivers.close());

      // Things to be removed, and events that are to be delivered: their receiver is down for now.
      let isDown = true;
      const delivered: string[] = [];
      const hook = await receivers.open(({ body }, response) => {
        if (!isDown) for (const { event } of body.deliveries ?? [body]) delivered.push(event.message_id);
        response.writeHead(isDown ? 503 : 204).end();
      });
      const gone = await receivers.open((_, response) => response.writeHead(400).end());
      await forwardTo(tributary.owner, hook.url, 'Kept');
      const dying = await forwardTo(tributary.owner, gone.url, 'Dies');
      const rules =
        await tributary.owner.get<readonly { id: string; name: string }[]>('./event-forwarding-rules');
      const dyingRule = rules.find(({ name }) => name.startsWith('Dies'))?.id;
      const { id: keyId, key } = await tributary.owner.post<{ id: string; key: string }>('./event-keys', {
        name: 'to be revoked',
        environment: 'production',
      });
      const [organization] =
        await tributary.owner.get<readonly { id: string; org_id: number }[]>('/organizations');
      const other = await tributary.owner.post<{ id: string }>('/workspaces', {
        name: 'to be archived',
        organization_id: organization?.id,
      });
      const profiles = () =>
        new ProfileClient(sendTo(tributary.url), organization?.org_id ?? 0, {}).withToken(tributary.idToken);
      await profiles().write({ email: 'someone@example.com' });

      const track = (event: string, message_id: string) =>
        tributary.producer.call('POST', './events/track', { event, user_id: 'u', message_id });
      const ids = Array.from({ length: 20 }, () => crypto.randomUUID());
      for (const id of ids) expect((await track('Kept', id)).status).toBe(202);
      for (let n = 0; n < 3; n++) expect((await track('Dies', crypto.randomUUID())).status).toBe(202);
      const dead = () => tributary.owner.get<readonly object[]>('./deliveries?status=dead');
      await eventually(dead, ({ length }) => length === 3);
      await eventually(
        () => hook.calls.length,
        (calls) => calls > 0,
      );

      const ballast = () => readdirSync(join(folder, 'ballast')).filter((name) => !name.endsWith('.new'));
      await eventually(ballast, ({ length }) => length === 8);
      await fillUp();
      const refused = await eventually(
        () => tributary.producer.call<{ reason?: string }>('POST', './events/track', {}),
        ({ body }) => body.reason === 'disk_full',
      );
      expect(refused).toMatchObject({ status: 503, body: { error: 'unavailable' } });

      const removed = async (method: string, path: string) => {
        const caller = path.startsWith('/')
          ? tributary.owner.with({ workspaceId: other.id })
          : tributary.owner;
        const answer = await caller.call(method, path);
        expect([path, answer.status, answer.body]).toEqual([
          path,
          expect.toSatisfy((s: number) => s < 300),
          answer.body,
        ]);
      };
      const discard = { destination_id: dying };
      expect((await tributary.owner.call('POST', './deliveries/discard', discard)).status).toBe(202);
      // Changes can be repeated without end: the ballast is kept for removals.
      const change = { name: 'x'.repeat(100) };
      expect(await tributary.owner.call('PATCH', `./destinations/${dying}`, change)).toMatchObject({
        status: 503,
        body: { reason: 'disk_full' },
      });
      await removed('DELETE', `./event-forwarding-rules/${dyingRule}`);
      await removed('DELETE', `./destinations/${dying}`);
      await removed('DELETE', `./event-keys/${keyId}`);
      await removed('DELETE', `/workspaces/${other.id}`);
      expect((await profiles().delete({ email: ['someone@example.com'] })).deletedProfiles).toHaveLength(1);
      expect(await signIn(tributary, 'first@example.com')).toEqual({
        status: 200,
        email: 'first@example.com',
      });

      // The other program goes on writing, and the process is killed.
      fill(filler);
      await tributary.kill();
      await fillUp();
      tributary = await startEmbedded(folder, ENVIRONMENT);
      expect(tributary.log()).toMatch(
        /the disk of the data folder is nearly full: .* removals and sign-in are served/,
      );
      const readiness = await (await fetch(`${tributary.adminUrl}/readyz`)).json();
      expect(readiness).toMatchObject({
        status: 'ready',
        checks: { disk: expect.stringContaining('reserve') },
      });
      const system = JSON.stringify(await (await fetch(`${tributary.adminUrl}/system`)).json());
      expect(system).toContain('are the reserve');
      expect((await track('Kept', crypto.randomUUID())).body).toMatchObject({ reason: 'disk_full' });
      expect(await tributary.owner.get('./event-forwarding-rules')).toHaveLength(1);
      expect(await signIn(tributary, 'second@example.com')).toEqual({
        status: 200,
        email: 'second@example.com',
      });
      expect(await profiles().search({ email: ['someone@example.com'] })).toEqual([]);

      isDown = false;
      rmSync(filler);
      await eventually(
        () => track('Other', crypto.randomUUID()),
        ({ status }) => status === 202,
      );
      expect((await tributary.owner.with({ token: key }).call('POST', './events/track', {})).status).toBe(
        401,
      );
      await eventually(
        () => delivered,
        (all) => ids.every((id) => all.includes(id)),
        60_000,
      );
      expect(delivered.toSorted()).toEqual(ids.toSorted());
      expect(await tributary.stop()).toBe(0);
    },
    FLOW_MS,
  );
});
