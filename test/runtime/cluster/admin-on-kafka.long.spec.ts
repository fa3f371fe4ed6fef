import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { clusterEnvironment, readyAt } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { admin, clientsOf, type Initialized } from '../../helpers/serve.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

describe.skipIf(engines() === undefined)('tributary admin through Kafka', () => {
  const prefix = freshPrefix();
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
  });
  afterAll(async () => {
    await removePrefix(prefix);
    await folder.remove();
  });

  it('sets an installation up before its first process, which takes events of the key then', async () => {
    const environment = {
      ...clusterEnvironment(prefix),
      TRIBUTARY_DATA_DIR: folder.path,
      LOG_LEVEL: 'error',
    };
    const first = await admin<Initialized>(environment, 'init', '--email', 'ada@example.com');
    expect(first).toMatchObject({ organization: { changed: true }, owner: { status: 'pending' } });
    const gateway = new ServerProcess(['gateway'], environment);
    onTestFinished(() => gateway.kill());
    const { producer } = await clientsOf(await readyAt(gateway), first);
    const { status } = await producer.call('POST', './events/track', { body: { event: 'E', user_id: 'u' } });
    expect(status).toBe(202);
    expect(await admin<Initialized>(environment, 'init', '--email', 'ada@example.com')).toMatchObject({
      organization: { id: first.organization.id, changed: false },
      api_key: { key: null },
    });
  });
});
