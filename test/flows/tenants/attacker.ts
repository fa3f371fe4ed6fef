import { getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { tell, told } from '../../helpers/child.ts';
import { Client } from '../../helpers/client.ts';
import { evenPace } from '../../helpers/pacing.ts';
import { openProfiles, sendTo } from '../../helpers/profile-client.ts';
import { startWebhook } from '../../helpers/webhook.ts';
import { ATTACKS, type Attacker } from './attacks.ts';

/** The pause of a caller that is refused, ms: its own work must not occupy the processors that it shares with the server. */
const REFUSED_PAUSE_MS = 20;
const REPORT_MS = 250;
const CALLERS = 16;

/** The task of this script: an attack by its name, and the person who attacks. */
export interface AttackTask {
  readonly name: string;
  readonly url: string;
  readonly token: string;
}

/** Opens an organization of the person with everything that an attack needs. */
async function openAttacker({ url, token }: AttackTask): Promise<Attacker> {
  const person = new Client(url, token);
  const { id: workspaceId } = await person.post<{ id: string }>('/workspaces', { name: 'Attacker' });
  const owner = person.with({ workspaceId });
  const { key } = await owner.post<{ key: string }>('./event-keys', { name: 'k', environment: 'production' });
  const { client: profiles, id: organizationId } = await openProfiles(owner, workspaceId, sendTo(url));
  const hook: Attacker['hook'] = async (behaviour) => (await startWebhook(behaviour)).url;
  return {
    url,
    token,
    organizationId,
    workspaceId,
    owner,
    producer: owner.with({ token: key }),
    writeKey: key,
    profiles,
    hook,
  };
}

// The script of a child: prepares the attack, reports that, and attacks from `go` until it is killed. Reports the statuses.
setPriority(Math.min(19, getPriority() + 5));
const task = JSON.parse(process.argv[2] ?? '') as AttackTask;
const attack = ATTACKS.find(({ name }) => name === task.name);
if (attack === undefined) throw new Error(`there is no attack ${task.name}`);
const call = await attack.prepare(await openAttacker(task));
const statuses: Record<string, number> = {};
tell(statuses);
await told();
setInterval(() => tell(statuses), REPORT_MS);
let calls = 0;
const { pace } = attack;
const due = pace === undefined ? undefined : evenPace(pace);
for (let caller = 0; caller < CALLERS; caller++)
  void (async () => {
    for (;;) {
      const n = calls++;
      await due?.(n);
      const status = await call(n).catch(() => 'error');
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === 429 || status === 503 || status === 'error') await sleep(REFUSED_PAUSE_MS);
    }
  })();
