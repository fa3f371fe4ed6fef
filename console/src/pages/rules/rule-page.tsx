import { Page } from '../../shared/page.tsx';

export function RulePage() {
  return <Page title="Rule">{null}</Page>;
}
