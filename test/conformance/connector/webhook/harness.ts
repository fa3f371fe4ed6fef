import { startFaultyProxy } from '../suite/faulty-proxy.ts';
import type { ConnectorHarness, ReceivedBody } from '../suite/harness.ts';
import { answerWith, startRecordingServer } from '../suite/recording-server.ts';

export const WEBHOOK_SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

export async function webhookHarness(): Promise<ConnectorHarness> {
  const server = await startRecordingServer();
  // Echoes the request, as some debugging services do.
  const takes: typeof server.answer = (response) => {
    response.writeHead(200).end(JSON.stringify(server.requests.at(-1)?.headers));
  };
  server.answer = takes;
  let refused = 0;
  const proxy = await startFaultyProxy({ host: '127.0.0.1', port: server.port });
  const at = (host: string) => ({
    url: `http://${host}:${proxy.port}/hook?key=in-the-query`,
    secret: WEBHOOK_SECRET,
    headers: { authorization: 'Bearer very-secret-token' },
    batch_size: 100,
  });
  return {
    settings: at('127.0.0.1'),
    hopeless: { url: 'http://10.0.0.1/' },
    connectors: { egressAllow: ['127.0.0.0/8'] },
    ordered: true,
    idempotent: false,
    showsRequest: true,
    network: { proxy, at },
    received: async () => server.requests.slice(refused).flatMap(({ body }) => bodiesIn(JSON.parse(body))),
    fail: async () => {
      server.answer = answerWith(503, 'Bearer very-secret-token');
    },
    mend: async () => {
      refused = server.requests.length;
      server.answer = takes;
    },
    close: async () => {
      await proxy.close();
      await server.close();
    },
  };
}

function bodiesIn(message: ReceivedBody | { deliveries: readonly ReceivedBody[] }): readonly ReceivedBody[] {
  if ('type' in message && message.type === 'test') return [];
  return 'deliveries' in message ? message.deliveries : [message];
}
