import { Unavailable, WarehouseRefused } from '@tributary/core';
import { StatementRefused } from '../merging/dialect.ts';

const REASON_LENGTH = 300;

/** The session or its token is over: the next one signs in again. */
const SESSION_OVER = /^3901(?:04|1[0-5])$/;
/** The service, its locks and time limits; statements that were ended; a file that another loader of the batch removed. */
const TRANSIENT = /^(?:091016|0006(?:0[3-58]|10|2[5-9]|3[09])|3(?!90)\d{5})$/;
/** An object or column that is not there, or is there already. */
const CHANGED = /^(?:000904|002003|002002|002043|001430)$/;
/** Objects that loads do not make, or of which only the right is missing. */
const FOR_A_PERSON = /^(?:SQL compilation error:\s*)?(?:Database|Schema|Warehouse|Role) /;
const NO_WAREHOUSE = '000606';

/** The error of a call that Snowflake refused. */
export function failureOfCode(code: string, message: string): Error {
  const text = `${message.slice(0, REASON_LENGTH).replaceAll(/\s+/g, ' ').trim().toWellFormed()} (${code})`;
  if (SESSION_OVER.test(code)) return new Unavailable(`the session has ended (${code})`);
  if (code.startsWith('390')) return new WarehouseRefused(`not authenticated (${code})`);
  if (code === NO_WAREHOUSE) return new WarehouseRefused(text);
  if (TRANSIENT.test(code)) return new Unavailable(`Snowflake answered ${code}`);
  if (CHANGED.test(code) && !FOR_A_PERSON.test(message))
    return new Unavailable(`the tables were changed during the load (${code})`);
  return new StatementRefused(text);
}
