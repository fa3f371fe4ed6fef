import { Page } from '../../shared/page.tsx';

export function RulesPage() {
  return <Page title="Rules">{null}</Page>;
}
