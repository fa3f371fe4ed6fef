import { readFile } from 'node:fs/promises';
import { RULES } from '../helpers/prometheus.ts';

/** Seconds that the times of the rules become: those with a time, and the ranges of rates. */
const WAIT_S = 2;
const RANGE_S = 10;
const LONG_RANGE_S = 30;

/**
 * The alert rules with their times shortened, so that a test sees them fire within seconds. Nothing else is changed but
 * ages: 15 minutes become 15 s, a day 20 s, two minutes without an answer 8 s, and 100,000 records become 200. Requests
 * may take ten seconds, as other tests may keep the machine busy.
 */
export async function quickRules(): Promise<string> {
  const text = await readFile(RULES, 'utf8');
  return text
    .replace(/^( {8}for:) .*$/gm, `$1 ${WAIT_S}s`)
    .replace(/\[5m\]/g, `[${RANGE_S}s]`)
    .replace(/\[(15m|1h)\]/g, `[${LONG_RANGE_S}s]`)
    .replace(/offset (15m|1h)/g, `offset ${LONG_RANGE_S}s`)
    .replace(/> 900$/gm, '> 15')
    .replace(/> 86400$/gm, '> 20')
    .replace(/> 120$/gm, '> 8')
    .replace(/> 100000$/gm, '> 200')
    .replace(/(_bucket\{operation="events.ingest"\}\[\d+s\]\)\)\)) > 1$/m, '$1 > 10');
}
