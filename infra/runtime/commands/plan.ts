import { readFile, writeFile } from 'node:fs/promises';
import type { Environment } from '../config/config.ts';
import { OperatorError, reportErrors, translateFileError } from '../process/lifecycle.ts';
import { PlanApi, type PlanApiOptions } from './plan-api.ts';

export interface ExportOptions extends PlanApiOptions {
  readonly format?: string;
  readonly label?: string;
  readonly out?: string;
}

export interface ImportOptions extends PlanApiOptions {
  readonly label?: string;
  readonly archiveMissing?: true;
}

/** `tributary plan export`: prints the plan of a workspace, or writes it to a file. */
export async function exportPlan(options: ExportOptions, environment: Environment): Promise<number> {
  const api = new PlanApi(options, environment);
  return reportErrors('plan export', async () => {
    const { text, isCsv } = await api.get({ format: options.format, label: options.label });
    await writeText(isCsv ? text : `${JSON.stringify(JSON.parse(text), null, 2)}\n`, options.out);
    return 0;
  });
}

/** `tributary plan import <file>`: creates and replaces contracts, and prints what it did. */
export function importPlan(file: string, options: ImportOptions, environment: Environment): Promise<number> {
  return sendPlan('import', file, options, environment);
}

/** `tributary plan diff <file>`: prints what an import would do. Exit code 1 where it would change something. */
export function diffPlan(file: string, options: ImportOptions, environment: Environment): Promise<number> {
  return sendPlan('diff', file, options, environment);
}

interface ImportAnswer {
  readonly created: number;
  readonly updated: number;
  readonly unchanged: number;
  readonly archived: number;
  readonly changes: readonly {
    readonly action: string;
    readonly event_type: string;
    readonly event_name: string;
    readonly fields: readonly string[];
  }[];
  readonly notes: readonly { readonly path: string; readonly message: string }[];
}

async function sendPlan(
  what: 'import' | 'diff',
  file: string,
  options: ImportOptions,
  environment: Environment,
): Promise<number> {
  const api = new PlanApi(options, environment);
  return reportErrors(`plan ${what}`, async () => {
    const body = await readText(file);
    const query = {
      label: options.label,
      ...(options.archiveMissing === true ? { missing: 'archive' } : {}),
      ...(what === 'diff' ? { dry_run: 'true' } : {}),
    };
    const answer = JSON.parse((await api.put(query, body, isCsv(body))).text) as ImportAnswer;
    process.stdout.write(report(answer));
    const changed = answer.created + answer.updated + answer.archived;
    return what === 'diff' && changed > 0 ? 1 : 0;
  });
}

/** A document that is no JSON is a table. */
export function isCsv(text: string): boolean {
  return !/^\ufeff?\s*[{[]/.test(text);
}

function report({ created, updated, unchanged, archived, changes, notes }: ImportAnswer): string {
  const lines = changes
    .filter(({ action }) => action !== 'unchanged')
    .map(({ action, event_type, event_name, fields }) => {
      const event = event_name === '' ? event_type : `${event_type} ${JSON.stringify(event_name)}`;
      return `${action} ${event}${fields.length === 0 ? '' : `: ${fields.join(', ')}`}`;
    });
  const left = notes.map(({ path, message }) => `note: ${path} ${message}`);
  const sum = `${created} created, ${updated} updated, ${archived} archived, ${unchanged} unchanged`;
  return `${[...lines, ...left, sum].join('\n')}\n`;
}

/** The text of a file; `-` is standard input. */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file === '-' ? '/dev/stdin' : file, 'utf8');
  } catch (error) {
    throw file === '-' ? error : new OperatorError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** Writes to a file, or to standard output. */
export async function writeText(text: string, file: string | undefined): Promise<void> {
  if (file === undefined) {
    process.stdout.write(text);
    return;
  }
  try {
    await writeFile(file, text);
  } catch (error) {
    throw translateFileError(error);
  }
}
