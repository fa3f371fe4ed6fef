import {
  checkSchema,
  hasLabel,
  type JsonObject,
  PlanMatcher,
  type PlanRemark,
  readPlan,
  trackingPlanOf,
} from '@tributary/core';
import { InvalidArgumentError } from 'commander';
import type { Environment } from '../../runtime/config/config.ts';
import { OperatorError, reportErrors } from '../../runtime/process/lifecycle.ts';
import { isCsv, PlanApi, type PlanApiOptions, readText, writeText } from '../plan.ts';
import type { GeneratedPlan } from './calls.ts';
import { generateGo } from './go.ts';
import { generatePython } from './python.ts';
import { generateTypeScript } from './typescript.ts';

export interface CodegenOptions extends PlanApiOptions {
  readonly language: Language;
  readonly sdk: Sdk;
  readonly plan?: string;
  readonly label?: string;
  readonly package: string;
  readonly out?: string;
}

/** Names that Go permits for a package and that are no keywords or identifiers of the generated file. */
const PACKAGE =
  /^(?!(?:break|case|chan|const|continue|default|defer|else|fallthrough|for|func|go|goto|if|import|interface|map|package|range|return|select|struct|switch|type|var)$)[a-z][a-z0-9]*$/;

/**
 * `tributary codegen --language <name>`: writes a typed client for the contracts of a document (`--plan`) or of a
 * workspace (`--url`, `--workspace`).
 */
export async function codegen(options: CodegenOptions, environment: Environment): Promise<number> {
  const { language, sdk, package: packageName } = options;
  if (sdk === 'browser' && language !== 'typescript')
    throw new InvalidArgumentError('--sdk browser is for --language typescript');
  if (!PACKAGE.test(packageName))
    throw new InvalidArgumentError('--package is a name of small letters and digits');
  const api = options.plan === undefined ? new PlanApi(options, environment) : undefined;
  return reportErrors('codegen', async () => {
    const text =
      api === undefined
        ? await readText(options.plan ?? '-')
        : (await api.get({ label: options.label })).text;
    await writeText(
      generateClient(generatedPlan(text, options.label), { language, sdk, packageName }),
      options.out,
    );
    return 0;
  });
}

/** The plan of a document in any of the forms, in the order of event types and names, whatever that of the document. */
function generatedPlan(text: string, label: string | undefined): GeneratedPlan {
  const document = isCsv(text) ? text : parsed(text);
  const read = readPlan(document);
  refuse(read.faults);
  const wanted = read.contracts.filter((contract) => label === undefined || hasLabel(contract, label));
  const matcher = new PlanMatcher([], { missing: 'keep' });
  const changes = wanted.flatMap((contract) => matcher.match(contract) ?? []);
  refuse(matcher.faults);
  const versions = new Map(wanted.map(({ location, version }) => [location, version]));
  const contracts = changes.flatMap((change) => {
    if (change.action !== 'create') return [];
    const { location, fields } = change;
    refuse(
      checkSchema(fields.schema_definition).map(({ path, message }) => ({
        path: `${location}: ${path}`,
        message,
      })),
    );
    return [{ ...fields, version: versions.get(location) ?? 0 }];
  });
  const name = typeof document === 'object' && typeof document.name === 'string' ? document.name : '';
  return trackingPlanOf(name, 0, contracts);
}

function parsed(text: string): JsonObject {
  try {
    const document: unknown = JSON.parse(text.replace(/^\ufeff/, ''));
    if (typeof document === 'object' && document !== null && !Array.isArray(document))
      return document as JsonObject;
  } catch {
    // Reported below, as any other text that is no plan.
  }
  throw new OperatorError('the plan is neither a JSON object nor CSV');
}

function refuse(faults: readonly PlanRemark[]): void {
  if (faults.length === 0) return;
  const lines = faults.slice(0, MAX_FAULTS).map(({ path, message }) => `\n  ${path} ${message}`);
  throw new OperatorError(`the plan cannot be used:${lines.join('')}`);
}

const MAX_FAULTS = 20;

interface GenerateOptions {
  readonly language: Language;
  /** TypeScript and Python have one client for both products; `browser` is for TypeScript alone. */
  readonly sdk: Sdk;
  /** The package of Go. */
  readonly packageName: string;
}

/** A typed client as the text of one file. The same plan gives the same text. */
export function generateClient(plan: GeneratedPlan, { language, sdk, packageName }: GenerateOptions): string {
  switch (language) {
    case 'typescript':
      return generateTypeScript(plan, sdk === 'browser' ? 'browser' : 'server');
    case 'python':
      return generatePython(plan);
    case 'go':
      return generateGo(plan, { sdk: sdk === 'rudderstack' ? 'rudderstack' : 'segment', packageName });
  }
}

export type Language = 'typescript' | 'python' | 'go';

export type Sdk = 'segment' | 'rudderstack' | 'browser';
