import type { GeneratedPlan } from './calls.ts';
import { generateGo } from './go.ts';
import type { Language, Sdk } from './options.ts';
import { generatePython } from './python.ts';
import { generateTypeScript } from './typescript.ts';

export interface GenerateOptions {
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
