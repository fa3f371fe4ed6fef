import { loadWithStreams, STREAM_LIMITS } from '../flows/events/live-load.ts';
import { startTributary } from '../helpers/tributary.ts';
import { type BenchRow, judged, perSecond } from './table.ts';

const STREAMS = 500;

/** The cost of open live streams for the gateway and the stages, with the readers on the same machine; one is never read. */
export async function liveRow(): Promise<BenchRow> {
  const tributary = await startTributary({ env: STREAM_LIMITS });
  try {
    const { without, among } = await loadWithStreams(tributary, STREAMS);
    const ratio = among.rate / without.rate;
    return {
      path: `POST batches of 50 beside ${STREAMS} live streams`,
      figure: perSecond(among.rate),
      baseline: `without ${perSecond(without.rate)}`,
      ...judged(ratio, '>=', 0.7),
      note: `processor time an event: ${among.cpu.toFixed(0)} us, without ${without.cpu.toFixed(0)} us`,
    };
  } finally {
    await tributary.remove();
  }
}
