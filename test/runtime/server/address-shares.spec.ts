import { describe, expect, it } from 'vitest';
import { open } from './raw-connection.ts';
import { openServedGateway } from './served-gateway.ts';

const { gateway, owner, writeKey, serve } = await openServedGateway();
const POLL = { timeout: 10_000 };

describe('shares of one address', () => {
  describe('of connections', () => {
    const livez = 'GET /livez HTTP/1.1\r\nhost: x\r\n\r\n';
    const trackOf = (length: number) =>
      `POST /api/v1/workspaces/${owner.workspaceId}/events/track HTTP/1.1\r\nhost: x\r\n` +
      `authorization: Bearer ${writeKey}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

    it.each([
      ['send nothing', ''],
      ['were answered and are kept', livez],
      ['never end their request', undefined],
    ])(
      'were all of them for one address: its connections that %s are closed for other addresses',
      async (_, text) => {
        const { port } = await serve({ maxConnections: 7 });
        const held = await Promise.all(Array.from({ length: 7 }, () => open(port, '127.0.0.5')));
        for (const { socket } of held) socket.write(text ?? trackOf(500));
        if (text === livez) for (const { answer } of held) await expect.poll(answer, POLL).toMatch(/ 200 /);
        for (let n = 0; n < 2; n++) {
          const other = await open(port, '127.0.0.6');
          other.socket.write(livez);
          await expect.poll(other.answer, POLL).toMatch(/^HTTP\/1\.1 200 /);
        }
        expect(held.filter(({ isOver }) => isOver()).length).toBe(2);
        const more = await open(port, '127.0.0.5');
        await expect.poll(more.isOver, POLL).toBe(true);
      },
    );

    it('never close a connection whose request is being processed', async () => {
      let confirm = () => {};
      const stalled = new Promise<void>((resolve) => {
        confirm = resolve;
      });
      const { log } = gateway.dependencies;
      let asked = 0;
      const slow = Object.create(log, {
        append: {
          value: async (...told: Parameters<typeof log.append>) => {
            asked++;
            await stalled;
            return log.append(...told);
          },
        },
      });
      const { port } = await serve({ maxConnections: 4 }, { log: slow });
      const held = await Promise.all(Array.from({ length: 4 }, () => open(port, '127.0.0.5')));
      const body = JSON.stringify({ event: 'E', user_id: 'u' });
      for (const { socket } of held) socket.write(`${trackOf(body.length)}${body}`);
      await expect.poll(() => asked, POLL).toBe(4);
      const other = await open(port, '127.0.0.6');
      await expect.poll(other.isOver, POLL).toBe(true);
      confirm();
      for (const { answer } of held) await expect.poll(answer, POLL).toMatch(/^HTTP\/1\.1 202 /);
    });
  });

  describe('of failed authentications, by an address with many spellings', () => {
    const guess = (url: string, forwarded: string) =>
      fetch(`${url}/api/v1/workspaces`, {
        headers: { authorization: 'Bearer trb_api_wrong', 'x-forwarded-for': forwarded },
      }).then(({ status }) => status);

    it.each([
      [
        'an IPv4 address',
        [
          '198.51.100.77',
          '::ffff:198.51.100.77',
          '[::FFFF:c633:644d]:80',
          '198.51.100.77:9',
          '64:ff9b::c633:644d',
        ],
      ],
      ['a /64', ['2001:db8:5::1', '2001:DB8:5:0:aaaa::', '[2001:db8:5::f]:443', '2001:db8:5:0:1:2:3:4%en0']],
      ['a proxy that forwards invalid addresses', ['unknown', 'guess-1', '', '1.2.3', '999.1.1.1']],
    ])('were counted for each spelling separately: %s', async (_, spellings) => {
      const { url } = await serve({ trustProxy: ['::ffff:127.0.0.0/104'] });
      for (let n = 0; n < 100; n++)
        expect(await guess(url, `10.0.0.${n}, ${spellings[n % spellings.length]}`)).toBe(401);
      for (const spelling of spellings) expect(await guess(url, `10.9.9.9, ${spelling}`)).toBe(429);
      expect(await guess(url, '203.0.113.1')).toBe(401);
    });
  });
});
