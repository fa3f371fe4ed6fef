import { Page } from '../../shared/page.tsx';

export function EventSearchPage() {
  return <Page title="Event search">{null}</Page>;
}
