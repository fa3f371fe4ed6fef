// Runs alone: it checks times, CPU and memory under load.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { type EventStream, openEventStream, type StreamOptions } from '../../helpers/event-stream.ts';
import { measured } from '../../helpers/measured.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { IS_LONG, loadWithStreams, STREAM_LIMITS } from './live-load.ts';

interface Shown {
  readonly message_id: string;
  readonly event: string;
  readonly outcome: string;
  readonly violations: readonly object[];
}

/** Events as they come in, for people who watch. */
describe('The live stream', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary({ env: STREAM_LIMITS });
  });
  afterAll(() => tributary.remove());

  async function open(options: Partial<StreamOptions> = {}): Promise<EventStream> {
    const { url, idToken: token, workspaceId } = tributary;
    const stream = await openEventStream(url, { token, workspaceId, ...options });
    onTestFinished(() => stream.close());
    expect(stream.status).toBe(200);
    return stream;
  }
  const track = (event: string, properties: object = {}, message_id?: string) =>
    tributary.producer.post('./events/track', {
      event,
      user_id: 'ada',
      properties,
      ...(message_id === undefined ? {} : { message_id }),
    });
  const shown = (stream: EventStream) => stream.events<Shown>();
  const ids = (stream: EventStream) => shown(stream).map(({ message_id }) => message_id);

  it('shows an event within a second of its response', async () => {
    const stream = await open();
    await track('Warm Up');
    await stream.got(1);
    const took: number[] = [];
    for (let n = 2; n <= 11; n++) {
      await track('Seen');
      const answeredAt = performance.now();
      await stream.got(n);
      took.push((stream.messages.at(-1)?.at ?? Number.NaN) - answeredAt);
    }
    console.log(
      `an event is in the stream ${took.map((ms) => ms.toFixed(0)).join(', ')} ms after its answer`,
    );
    expect(Math.max(...took)).toBeLessThan(1_000);
    expect(shown(stream).at(-1)).toMatchObject({ event: 'Seen', outcome: 'accepted', violations: [] });
  });

  it('shows the outcome of each event, including rejections, and no duplicate', async () => {
    const contract = {
      name: 'orders',
      event_type: 'track',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
      undeclared_fields: 'omit',
    };
    await tributary.owner.post('./event-contracts', {
      ...contract,
      event_name: 'Order',
      enforcement_mode: 'block',
    });
    await tributary.owner.post('./event-contracts', {
      ...contract,
      event_name: 'Quote',
      enforcement_mode: 'warn',
    });
    const stream = await open();
    await track('Order', { total: 1 }, 'fine');
    await track('Order', { total: 2, secret: 'x' }, 'cut');
    await track('Order', { total: 'much' }, 'blocked');
    await track('Quote', { total: 'much' }, 'warned');
    await track('Order', { total: 1 }, 'fine');
    await track('Order', { total: 3 }, 'last');
    await eventually(
      () => ids(stream),
      (seen) => ['last', 'blocked'].every((id) => seen.includes(id)),
    );
    const of = (id: string) => shown(stream).filter(({ message_id }) => message_id === id);
    expect(of('fine')).toMatchObject([{ outcome: 'accepted', violations: [] }]);
    expect(of('cut')).toMatchObject([
      {
        outcome: 'omitted',
        properties: { total: 2 },
        violations: [{ kind: 'undeclared', path: '/secret', action: 'omitted', message_id: 'cut' }],
      },
    ]);
    expect(of('blocked')).toMatchObject([
      { outcome: 'rejected', properties: { total: 'much' }, violations: [{ kind: 'type', path: '/total' }] },
    ]);
    expect(of('warned')).toMatchObject([
      {
        outcome: 'warned',
        violations: [{ kind: 'type', path: '/total', action: 'warned', event_name: 'Quote' }],
      },
    ]);
  });

  it('resumes after a restart of the server, and reports a position that is no longer kept', async () => {
    const first = await open();
    await first.got(1);
    await tributary.stop();
    await first.over();
    expect(first.notices('end')).toEqual([{ reason: 'shutting down' }]);
    const { folder } = tributary;
    tributary = await startTributary({ folder, env: STREAM_LIMITS });
    await track('After', {}, 'after');
    const second = await open({ lastEventId: first.lastEventId });
    await second.got(1);
    expect(ids(second)).toEqual(['after']);
    // Redis keeps the tail while gateways restart; an in-process tail ends with its process.
    expect(second.notices('missed')).toEqual(onCluster ? [] : [{ count: null }]);
  });

  it('500 streams, one with a client that does not read, cost bounded memory and no throughput', async () => {
    // On a busy machine rates vary more than the streams' cost does, and the difference of two processes at full
    // load more than that at a steady rate.
    const leastRate = IS_LONG ? 0.7 : 0.4;
    const { streamCores, rate } = await measured(
      async () => {
        const load = await loadWithStreams(tributary, 500);
        const { without, among, streamCores, memoryBefore, memoryAmong, seen, missed } = load;
        const said = ({ rate, cpu }: typeof without) =>
          `${rate.toFixed(0)} events/s, ${cpu.toFixed(0)} us of CPU each`;
        console.log(
          `without streams ${said(without)}; with 500 ${said(among)}, ${streamCores.toFixed(2)} of a core at a steady rate; memory ${memoryBefore.toFixed(0)} MiB before, then ` +
            `${memoryAmong.map((mib) => mib.toFixed(0)).join(', ')}; ` +
            `one stream was shown ${seen} events and told that it missed ${missed}`,
        );
        // Half a MiB a stream, constant over time: the last round takes about as much as the middle one.
        const middle = memoryAmong[Math.floor((memoryAmong.length - 1) / 2)] ?? Number.NaN;
        expect(Math.max(...memoryAmong) - memoryBefore).toBeLessThan(300);
        expect((memoryAmong.at(-1) ?? Number.NaN) - middle).toBeLessThan(memoryAmong.length > 2 ? 75 : 200);
        expect(seen).toBeGreaterThan(0);
        return { streamCores, rate: among.rate / without.rate };
      },
      (figures) => figures.streamCores < 0.25 && figures.rate > leastRate,
    );
    expect(streamCores).toBeLessThan(0.25);
    expect(rate).toBeGreaterThan(leastRate);
  }, 240_000);
});
